"""Earlier turns of a conversation, and what they add by rule to what is searched for and asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from mrag.documents.decoding import clean
from mrag.errors import InputError
from mrag.models.prompt import shortened
from mrag.query.footnotes import without_footnotes

MOST_TURNS = 100
SHOWN_TURNS = 3
SHOWN_CHARACTERS = 300
SEARCHED_CHARACTERS = 1000
MOST_CHARACTERS = 20_000
ANSWER_CHARACTERS = 20_000  # of an answer that is looked through for footnotes
KEPT_CHARACTERS = 4000  # of a question and of an answer in a dialogue; a prompt shows less


@dataclass(frozen=True)
class Turn:
    """A question that was asked before, its answer, and the titles of the documents that it cited."""

    question: str
    answer: str = ""
    titles: tuple[str, ...] = ()


def searched(question: str, turns: Sequence[Turn]) -> str:
    """What is searched for: the question, the one before it, and what its answer cited."""
    if not turns:
        return question
    last = turns[-1]
    before = " ".join(dict.fromkeys((last.question, *last.titles)))
    return f"{question} {before[:SEARCHED_CHARACTERS]}"


def asked(question: str, turns: Sequence[Turn]) -> str:
    """What the model is asked: the question, and in brackets what it follows, the last turn first."""
    if not turns:
        return question
    return f"{question} (This follows: {' / '.join(map(_shown, reversed(turns[-SHOWN_TURNS:])))})"


def _shown(turn: Turn) -> str:
    question = shortened(turn.question, SHOWN_CHARACTERS)
    return f"{question} - {shortened(turn.answer, SHOWN_CHARACTERS)}" if turn.answer else question


def parse_turns(given: Sequence[Turn | Mapping[str, Any]]) -> tuple[Turn, ...]:
    """Turns as a caller sends them, the oldest first. Raises InputError (field `turns`)."""
    if len(given) > MOST_TURNS:
        raise InputError("turns", f"There are {len(given)} turns: send at most the last {MOST_TURNS}.")
    return tuple(turn if isinstance(turn, Turn) else _parsed(turn) for turn in given)


def _parsed(turn: Mapping[str, Any]) -> Turn:
    try:
        question, answer = turn["question"], turn.get("answer") or ""
        titles = tuple(turn.get("titles") or ())
    except (KeyError, TypeError, AttributeError):
        raise InputError("turns", "A turn is a question, and may have an answer and titles.") from None
    if not all(isinstance(part, str) for part in (question, answer, *titles)):
        raise InputError("turns", "The question, answer and titles of a turn are text.")
    if len(question) + len(answer) + sum(map(len, titles)) > MOST_CHARACTERS:
        raise InputError("turns", f"A turn is too long: shorten it to {MOST_CHARACTERS} characters.")
    return Turn(clean(question), clean(answer), tuple(map(clean, titles)))


def turns_of(dialogue: Sequence[tuple[bool, str]]) -> tuple[str, tuple[Turn, ...]]:
    """The last question of a dialogue, and the turns before it; each part is (whether it is asked, its text).

    Several answers in a row are one; what comes after the last question is left out. An answer's footnotes
    become titles. Raises InputError (field `messages`) where nothing is asked.
    """
    asked = [place for place, (is_question, text) in enumerate(dialogue) if is_question and text.strip()]
    if not asked:
        raise InputError("messages", "No message of the user has text: ask something.")
    turns = []
    for place, following in pairwise(asked):
        answers = [text for is_question, text in dialogue[place + 1 : following] if not is_question]
        answer, titles = without_footnotes("\n".join(answers)[:ANSWER_CHARACTERS])
        turns.append(Turn(_kept(dialogue[place][1]), _kept(answer), titles))
    return dialogue[asked[-1]][1], tuple(turns[-MOST_TURNS:])


def _kept(text: str) -> str:
    return clean(text[:KEPT_CHARACTERS])

"""A question that follows others becomes one that stands alone, by a call of its own on request."""

from __future__ import annotations

from dataclasses import dataclass, field

from mrag.errors import InputError
from mrag.models.language_model import LanguageModel, Request
from mrag.models.prompt import one_line, render, room, shortened
from mrag.models.replies import answer_of
from mrag.query.question import Question, clean
from mrag.query.turns import SHOWN_CHARACTERS, SHOWN_TURNS, Turn
from mrag.schema import Usage

REPLY_TOKENS = 128


@dataclass(frozen=True)
class Rewritten:
    """The question that stands alone; None where the model wrote nothing of use."""

    text: str | None
    usage: Usage = field(default_factory=Usage)
    notes: tuple[str, ...] = ()


class Rewriter:
    """Asks the model. Deviation: neither paper has conversations, nor this fourth call."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    async def rewrite(self, question: Question, timeout_s: float | None = None) -> Rewritten:
        """The last question in the light of its turns, of which the last few are shown. Raises ModelError."""
        shown = "\n".join(map(_turn, question.turns[-SHOWN_TURNS:]))
        messages = render("rewrite", turns=shown, question=one_line(question.text))
        if room(self._model, messages, REPLY_TOKENS) < 0:
            raise InputError("question", "The question is too long for the model's window: shorten it.")
        reply = await self._model.complete(Request(messages, REPLY_TOKENS, "rewrite", timeout_s=timeout_s))
        try:
            text = clean(" ".join(answer_of(reply.text).split()))
        except InputError:
            return Rewritten(None, reply.usage, ("The model wrote no question; the rule's is searched for.",))
        return Rewritten(text, reply.usage)


def _turn(turn: Turn) -> str:
    parts = [f"Question: {shortened(turn.question, SHOWN_CHARACTERS)}"]
    if turn.answer:
        parts.append(f"Answer: {shortened(turn.answer, SHOWN_CHARACTERS)}")
    return "\n".join(parts)

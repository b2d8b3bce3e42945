"""SANE eq. 8: one call chooses k of the w candidates by their synopses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mrag.errors import InputError, ModelError
from mrag.models.language_model import LanguageModel, Message, Request
from mrag.models.prompt import one_line, render, room
from mrag.models.replies import answer_of
from mrag.query.synopsis import Synopsis, SynopsisLimits, synopses
from mrag.schema import Candidate, Pool, Usage

REPLY_TOKENS = 256
SHRINKING = (1.0, 0.5, 0.25, 0.12)

_KEYED = re.compile(r"""["']?selected["']?\s*[:=]\s*\[([^\[\]]*)(\]?)""")
_BARE = re.compile(r"\[([^\[\]]*)(\]?)")
_ITEM = re.compile(r"""\s*["'\[]?(\d{1,6})["'\]]?\s*""")
_NUMBER = re.compile(r"\[?-?\d+\]?")


@dataclass(frozen=True)
class Selection:
    """The chosen candidates, the model's first, and what was noticed."""

    candidates: tuple[Candidate, ...]
    usage: Usage = field(default_factory=Usage)
    notes: tuple[str, ...] = ()


class Selector:
    """Asks the model which candidates to read."""

    def __init__(self, model: LanguageModel, limits: SynopsisLimits | None = None) -> None:
        self._model = model
        self._limits = limits or SynopsisLimits()

    async def select(self, question: str, pool: Pool, k: int, timeout_s: float | None = None) -> Selection:
        """k candidates of the pool, or all where it has no more: then nothing is asked.

        Where the model chooses fewer, or fails, the others are the best of the pool that are left.
        Raises InputError (field `question`) for a question that leaves no room for a candidate.
        """
        candidates = pool.candidates
        if len(candidates) <= k:
            return Selection(candidates)
        messages, shown, notes = self._prompt(question, candidates, k)
        request = Request(
            messages, REPLY_TOKENS, "select", schema=reply_schema(shown, k), timeout_s=timeout_s
        )
        try:
            completion = await self._model.complete(request)
        except ModelError as error:
            return Selection(
                candidates[:k], notes=(*notes, f"Selection failed ({error}); the retrieval order was kept.")
            )
        chosen = parse_selection(completion.text, shown)[:k]
        if not chosen:
            notes += ("Selection chose nothing; the retrieval order was kept.",)
        return Selection(_padded(candidates, chosen, k), completion.usage, notes)

    def _prompt(
        self, question: str, candidates: Sequence[Candidate], k: int
    ) -> tuple[tuple[Message, ...], int, tuple[str, ...]]:
        """The longest prompt that fits, how many candidates it shows, and what was left out."""
        for factor in SHRINKING:
            lines = _lines(
                synopses(question, candidates, self._model.count_tokens, self._limits.scaled(factor))
            )
            if self._fits(messages := _messages(question, lines, k)):
                notes = (
                    ()
                    if factor == 1
                    else (f"Synopses were shortened to {factor:.0%} to fit the model's window.",)
                )
                return messages, len(candidates), notes
        while len(lines) > 1:
            lines = lines[: -(len(lines) // 4 or 1)]
            if self._fits(messages := _messages(question, lines, k)):
                return (
                    messages,
                    len(lines),
                    (f"Only the first {len(lines)} candidates fit the model's window.",),
                )
        raise InputError("question", "The question is too long for the model's window: shorten it.")

    def _fits(self, messages: tuple[Message, ...]) -> bool:
        return room(self._model, messages, REPLY_TOKENS) >= 0


def _messages(question: str, lines: Sequence[str], k: int) -> tuple[Message, ...]:
    return render("select", candidates="\n".join(lines), question=one_line(question), k=str(k))


def _lines(described: Sequence[Synopsis]) -> list[str]:
    return [
        f"[{n}] {synopsis.metadata}\n  keywords: {synopsis.keywords}\n  excerpt: {synopsis.excerpt}"
        for n, synopsis in enumerate(described, 1)
    ]


def reply_schema(n: int, k: int) -> dict[str, Any]:
    """At most k of the labels 1 to n."""
    numbers = {
        "type": "array",
        "items": {"type": "integer", "enum": list(range(1, n + 1))},
        "minItems": 1,
        "maxItems": k,
    }
    return {
        "type": "object",
        "properties": {"selected": numbers},
        "required": ["selected"],
        "additionalProperties": False,
    }


def parse_selection(reply: str, n: int) -> list[int]:
    """The labels that a reply lists, each in 1 to n and named once; empty where it lists none.

    A list under `selected` counts, and a reply that is nothing but a list. Numbers in prose do not: "the
    3 best are 7 and 9" must not choose the third. The last item of a list that was cut may be half a number.
    """
    labels = [int(match[1]) for item in _items(answer_of(reply)) if (match := _ITEM.fullmatch(item))]
    return list(dict.fromkeys(label for label in labels if 1 <= label <= n))


def _items(text: str) -> list[str]:
    if listed := _KEYED.search(text) or _BARE.fullmatch(text):
        items = listed[1].split(",")
        return items if listed[2] else items[:-1]
    items = [item for item in re.split(r"[\s,;]+", text) if item]
    return items if all(map(_NUMBER.fullmatch, items)) else []


def _padded(candidates: Sequence[Candidate], chosen: Sequence[int], k: int) -> tuple[Candidate, ...]:
    others = (label for label in range(1, len(candidates) + 1) if label not in chosen)
    return tuple(candidates[label - 1] for label in [*chosen, *others][:k])

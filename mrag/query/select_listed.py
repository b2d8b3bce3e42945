"""SANE eq. 8, to the letter: one call lists the candidates to read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from mrag.models.language_model import LanguageModel, Message, Request
from mrag.models.prompt import one_line, render
from mrag.models.replies import answer_of
from mrag.models.reply_schemas import closed_object
from mrag.query.describe import describe, parts_shown
from mrag.query.selection import Ranking
from mrag.schema import Candidate
from mrag.settings import SaneReader

REPLY_TOKENS = 256

_KEYED = re.compile(r"""(?<![\w-])(?<!not )["']?selected["']?\s*[:=]\s*\[([^\[\]]*)(\]?)""")
_BARE = re.compile(r"\[([^\[\]]*)(\]?)")
_ITEM = re.compile(r"""\s*["'\[]?(\d{1,6})["'\]]?\s*""")
_NUMBER = re.compile(r"\[?-?\d+\]?")


class ListedSelection:
    """A `Form`: candidates are numbered, the reply is a list of numbers that a schema holds to the pool."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    async def rank(
        self, question: str, candidates: Sequence[Candidate], reader: SaneReader, timeout_s: float | None
    ) -> Ranking:
        """At most k candidates, in the order listed; none where the reply lists none."""

        def prompts(texts: Sequence[str]) -> list[tuple[Message, ...]]:
            return [_messages(question, texts, reader)]

        described = describe(
            self._model, question, candidates, reader.synopsis, prompts, reply_tokens=REPLY_TOKENS
        )
        (messages,) = described.prompts
        schema = reply_schema(described.shown, reader.k)
        completion = await self._model.complete(
            Request(messages, REPLY_TOKENS, "select", schema=schema, timeout_s=timeout_s)
        )
        chosen = parse_selection(completion.text, described.shown)[: reader.k]
        notes = () if chosen else ("Selection chose nothing; the retrieval order was kept.",)
        return Ranking(tuple(chosen), completion.usage, described.notes + notes)


def _messages(question: str, texts: Sequence[str], reader: SaneReader) -> tuple[Message, ...]:
    return render(
        "select",
        shown=parts_shown(reader.synopsis),
        candidates="\n".join(f"[{n}] {text}" for n, text in enumerate(texts, 1)),
        question=one_line(question),
        k=str(reader.k),
    )


def reply_schema(n: int, k: int) -> dict[str, Any]:
    """At most k of the labels 1 to n."""
    numbers = {
        "type": "array",
        "items": {"type": "integer", "enum": list(range(1, n + 1))},
        "minItems": 1,
        "maxItems": k,
    }
    return closed_object({"selected": numbers})


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

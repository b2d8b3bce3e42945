"""The chunk baselines of M-RAG IV-A: a chunk is the degenerate record, key = value = text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mrag.indexing.asking import Asker
from mrag.indexing.builder import Builder, Drafted
from mrag.indexing.records import Draft
from mrag.models.tokens import Tokenizer
from mrag.schema import Document, RecordKind, SourceUnit
from mrag.settings import DocumentSettings, FixedBuilder


class Fixed(Builder):
    """Chunks of a fixed number of encoder tokens, each sharing `overlap` tokens with the one before."""

    name = "fixed"

    def __init__(
        self,
        settings: FixedBuilder,
        tokenizer: Tokenizer,
        documents: DocumentSettings,
        parameters: Mapping[str, Any],
    ) -> None:
        super().__init__(tokenizer, documents, {**parameters, **settings.model_dump()})
        self._settings = settings

    async def _draft(self, document: Document, units: Sequence[SourceUnit], asker: Asker | None) -> Drafted:
        chunks = list(self._chunks(document.text)) if units else []
        return Drafted(tuple(_chunk(document.text, start, end, units) for start, end in chunks))

    def _chunks(self, text: str) -> Iterator[tuple[int, int]]:
        """Offsets of chunks that leave no character out, also none that the tokenizer passes over."""
        starts = [start for start, _ in self._tokenizer.spans(text)] or [0]
        step = self._settings.tokens - self._settings.overlap
        for first in range(0, len(starts), step):
            last = first + self._settings.tokens
            start = starts[first] if first else 0
            end = starts[last] if last < len(starts) else len(text)
            if text[start:end].strip():
                yield start, end
            if last >= len(starts):
                return


def _chunk(text: str, start: int, end: int, units: Sequence[SourceUnit]) -> Draft:
    """A chunk that lies in headings only points to the unit that follows them, or to the last one."""
    pointers = tuple(unit.number for unit in units if unit.start < end and unit.end > start)
    nearest = next((unit.number for unit in units if unit.start >= end), units[-1].number)
    content = text[start:end].strip()
    return Draft((content,), content, pointers or (nearest,), RecordKind.CHUNK)

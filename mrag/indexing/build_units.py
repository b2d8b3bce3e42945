"""One record for each source unit: key = value = text."""

from __future__ import annotations

from collections.abc import Sequence

from mrag.indexing.asking import Asker
from mrag.indexing.builder import Builder, Drafted
from mrag.indexing.records import Draft
from mrag.schema import Document, RecordKind, SourceUnit


class Units(Builder):
    """SANE's raw paragraphs behind the same access path."""

    name = "units"

    async def _draft(self, document: Document, units: Sequence[SourceUnit], asker: Asker | None) -> Drafted:
        return Drafted(
            tuple(Draft((unit.text,), unit.text, (unit.number,), RecordKind.UNIT) for unit in units)
        )

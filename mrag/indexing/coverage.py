"""Coverage validation and fallback repair (M-RAG III-B, eq. 9): no source unit stays unreachable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mrag.indexing.records import Draft
from mrag.schema import RecordKind, SourceUnit


def uncovered(units: Sequence[SourceUnit], drafts: Iterable[Draft]) -> tuple[SourceUnit, ...]:
    """The units that no draft points to, in order."""
    covered = {number for draft in drafts for number in draft.pointers}
    return tuple(unit for unit in units if unit.number not in covered)


def coverage(units: Sequence[SourceUnit], drafts: Iterable[Draft]) -> float:
    """cov(D_n) of eq. 9; 1.0 for a document without units."""
    return 1.0 - len(uncovered(units, drafts)) / len(units) if units else 1.0


def fallback(unit: SourceUnit) -> Draft:
    """The conservative repair: key and value are both the unit's content, the pointer refers to it."""
    return Draft((unit.text,), unit.text, (unit.number,), RecordKind.FALLBACK)

"""Candidates and pools for the tests of a question's way, short enough to count by hand."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mrag.schema import Candidate, DocumentInfo, Pool, Record, SourceUnit


def info(document_id: str = "doc", title: str = "", **metadata: Any) -> DocumentInfo:
    return DocumentInfo(document_id, title, metadata)


def unit(
    text: str,
    number: int = 1,
    document_id: str = "doc",
    section: tuple[str, ...] = (),
    page: int | None = None,
) -> SourceUnit:
    return SourceUnit(document_id, number, 0, len(text), text, section, page)


def candidate(
    text: str,
    document_id: str = "doc",
    number: int = 1,
    *,
    values: tuple[str, ...] = (),
    key: str = "key",
    title: str = "",
    section: tuple[str, ...] = (),
    metadata: Mapping[str, Any] | None = None,
    page: int | None = None,
) -> Candidate:
    """One unit of one document, with a record for every value (by default the text itself)."""
    records = tuple(
        Record(f"{document_id}-{number}-{i}", document_id, (key,), value, (number,))
        for i, value in enumerate(values or (text,))
    )
    document = DocumentInfo(document_id, title, metadata or {})
    ranks = tuple(range(1, len(records) + 1))
    units = (unit(text, number, document_id, section, page),)
    return Candidate(document, units, records, key, 1.0, ranks=ranks)


def pool(*candidates: Candidate) -> Pool:
    return Pool(candidates, generation=3)


def ranked(*candidates: Candidate) -> list[Candidate]:
    """The candidates with their records ranked as they come."""
    rank = itertools.count(1)
    return [replace(one, ranks=tuple(next(rank) for _ in one.records)) for one in candidates]

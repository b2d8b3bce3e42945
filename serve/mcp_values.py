"""What the tools of an agent reply: as much of a pool, an answer or a document as fits its own context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from mrag.query.library import OpenedDocument
from mrag.schema import Answer, Candidate, EvidenceRow, Pool, Source


class Place(BaseModel):
    """Where something stands: `open_document` shows it by `document_id` and `units`."""

    document_id: str
    title: str
    units: list[int]
    pages: list[int]

    @classmethod
    def of(cls, source: Source) -> Place:
        """The place of a source."""
        return cls(
            document_id=source.document_id,
            title=source.title,
            units=list(source.units),
            pages=list(source.pages),
        )


class Passage(BaseModel):
    """A piece of a document that was found by one of its keys."""

    place: Place
    key: str
    score: float
    text: str

    @classmethod
    def of(cls, candidate: Candidate) -> Passage:
        """The source text of a candidate."""
        place = Place.of(Source.of(candidate.document, candidate.units))
        return cls(place=place, key=candidate.key, score=candidate.score, text=candidate.text)


class Found(BaseModel):
    """Passages, best first."""

    passages: list[Passage]
    notes: list[str]

    @classmethod
    def of(cls, pool: Pool) -> Found:
        """The passages of a pool."""
        return cls(passages=[Passage.of(one) for one in pool.candidates], notes=list(pool.notes))


class Row(BaseModel):
    """One row of evidence; only one that is `verified` or `derived` is a fact."""

    number: int
    cells: dict[str, str]
    quote: str
    verdict: str
    place: Place | None

    @classmethod
    def of(cls, number: int, row: EvidenceRow) -> Row:
        """A row with its number in the table."""
        place = Place.of(row.source) if row.source else None
        return cls(
            number=number, cells=dict(row.cells), quote=row.quote, verdict=row.verdict.value, place=place
        )


class Answered(BaseModel):
    """An answer, the rows of evidence, the numbers of those that it rests on, and where it comes from."""

    answer: str
    evidence: list[Row]
    citations: list[int]
    sources: list[Place]
    notes: list[str]

    @classmethod
    def of(cls, answer: Answer) -> Answered:
        """An answer without its trace."""
        rows = answer.evidence.rows if answer.evidence else ()
        return cls(
            answer=answer.text,
            evidence=[Row.of(number, row) for number, row in enumerate(rows, start=1)],
            citations=list(answer.citations),
            sources=[Place.of(source) for source in answer.sources],
            notes=list(answer.notes),
        )


class Unit(BaseModel):
    """One source unit."""

    number: int
    section: list[str]
    page: int | None
    text: str


class Opened(BaseModel):
    """Some source units of a document; `next_unit` is the first that is left out after them, if any is."""

    id: str
    title: str
    metadata: Mapping[str, Any]
    units_in_all: int
    units: list[Unit]
    next_unit: int | None

    @classmethod
    def of(cls, document: OpenedDocument, first: int, most: int) -> Opened:
        """At most so many units from the unit of that number on."""
        shown = document.units[first - 1 : first - 1 + most]
        after = first + len(shown)
        return cls(
            id=document.id,
            title=document.title,
            metadata=document.metadata,
            units_in_all=len(document.units),
            units=[
                Unit(
                    number=unit.number,
                    section=list(unit.section),
                    page=unit.page,
                    text=document.text[unit.start : unit.end],
                )
                for unit in shown
            ],
            next_unit=after if shown and after <= len(document.units) else None,
        )


class Shelf(BaseModel):
    """A collection that can be searched."""

    name: str
    documents: int
    default: bool


class Shelves(BaseModel):
    """All of them."""

    collections: list[Shelf]

"""Where in a collection the evidence of a question stands, and how much of it a pool holds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from mrag.errors import NotFoundError
from mrag.evaluation.questions import GoldParagraph, GoldQuestion, GoldSentence
from mrag.schema import Candidate, Document, Source, SourceUnit

_BLANK_LINES = re.compile(r"\n(?:[^\S\n]*\n)+")
Place = tuple[str, int]


class Documents(Protocol):
    """What is asked of an open collection."""

    def document(self, document_id: str) -> Document:
        """One live document; NotFoundError for another."""

    def units(self, document_id: str) -> tuple[SourceUnit, ...]:
        """Its source units, in order."""


@dataclass(frozen=True)
class Gold:
    """What a pool should hold. A passage is the set of its units, any of which is enough to have found it.

    `missing` names documents that the collection does not hold, and passages that are not in theirs: they are
    wanted all the same, and never found.
    """

    documents: frozenset[str]
    passages: tuple[frozenset[Place], ...]
    missing: tuple[str, ...] = ()

    def recall(self, candidates: Sequence[Candidate], cutoffs: Sequence[int]) -> dict[str, dict[int, float]]:
        """Of `documents` and `passages`, where labelled: the share that the first k candidates hold, by k."""
        found = [Source.of(candidate.document, candidate.units) for candidate in candidates]
        by_cutoff = {k: self.held(found[:k]) for k in cutoffs}
        return {kind: {k: held[kind] for k, held in by_cutoff.items()} for kind in self.held(())}

    def held(self, places: Sequence[Source]) -> dict[str, float]:
        """The share that these places hold, of `documents` and `passages`, where labelled."""
        kinds: dict[str, tuple[Sequence[frozenset[Any]], Set[Any]]] = {
            "documents": (
                [frozenset({name}) for name in self.documents],
                {place.document_id for place in places},
            ),
            "passages": (
                self.passages,
                {(place.document_id, number) for place in places for number in place.units},
            ),
        }
        return {
            kind: sum(bool(one & found) for one in wanted) / len(wanted)
            for kind, (wanted, found) in kinds.items()
            if wanted
        }


def locate(question: GoldQuestion, collection: Documents, duplicates: Mapping[str, str]) -> Gold:
    """The gold of a question. `duplicates` gives for a document that was left out the holder of its text."""
    held: dict[str, tuple[Document, tuple[SourceUnit, ...]]] = {}
    for name in {*question.gold_doc_ids, *(passage.doc_id for passage in question.passages)}:
        holder = duplicates.get(name, name)
        with suppress(NotFoundError):
            held[name] = collection.document(holder), collection.units(holder)
    places = [
        _places(*held[passage.doc_id], passage) if passage.doc_id in held else frozenset[Place]()
        for passage in question.passages
    ]
    return Gold(
        frozenset(duplicates.get(name, name) for name in question.gold_doc_ids),
        tuple(places),
        (
            *(name for name in question.gold_doc_ids if name not in held),
            *(_name(passage) for passage, found in zip(question.passages, places, strict=True) if not found),
        ),
    )


def _places(
    document: Document, units: Sequence[SourceUnit], passage: GoldParagraph | GoldSentence
) -> frozenset[Place]:
    """The units that the passage overlaps."""
    start, end = _span(document.text, passage)
    return frozenset((document.id, unit.number) for unit in units if unit.start < end and unit.end > start)


def _span(text: str, passage: GoldParagraph | GoldSentence) -> tuple[int, int]:
    """Where the passage stands, (0, 0) where it does not."""
    if isinstance(passage, GoldParagraph):
        spans = list(_paragraphs(text))
        return spans[passage.para_idx] if 0 <= passage.para_idx < len(spans) else (0, 0)
    words = passage.text.split()
    found = re.search(r"\s+".join(map(re.escape, words)), text) if words else None
    return found.span() if found else (0, 0)


def _paragraphs(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for gap in (*_BLANK_LINES.finditer(text), None):
        end = gap.start() if gap else len(text)
        if text[start:end].strip():
            yield start, end
        start = gap.end() if gap else end


def _name(passage: GoldParagraph | GoldSentence) -> str:
    if isinstance(passage, GoldParagraph):
        return f"{passage.doc_id}, paragraph {passage.para_idx}"
    return f"{passage.doc_id}, {passage.text[:60]!r}"

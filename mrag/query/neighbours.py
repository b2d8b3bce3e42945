"""Units beside the selected ones, fetched when they are wanted: `neighbours` of the SANE reader."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mrag.collection.manifest import Manifest
from mrag.errors import CollectionError
from mrag.query.question import Question
from mrag.schema import Candidate, SourceUnit, Usage

_log = logging.getLogger(__name__)


class Readable(Protocol):
    """What is needed of an open collection."""

    @property
    def manifest(self) -> Manifest:
        """What the generation consists of."""

    def units(self, document_id: str, numbers: Sequence[int]) -> tuple[SourceUnit, ...]:
        """The source units of these numbers that one live document has."""


@dataclass(frozen=True)
class Around:
    """Single units as candidates without records, the nearest to a selected one first."""

    candidates: tuple[Candidate, ...] = ()
    notes: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)


class Neighbours:
    """Fetches units by their numbers; `open_collection` gives the generation in force, as for retrieval."""

    def __init__(self, open_collection: Callable[[str], Readable]) -> None:
        self._open = open_collection

    async def around(
        self, question: Question, selected: Sequence[Candidate], generation: int, n: int
    ) -> Around:
        """The n units before and after each unit of the candidates, none of their own among them.

        Nothing, and a note, where the collection is no longer at the generation that was searched.
        """
        return await asyncio.to_thread(self._around, question.collection, selected, generation, n)

    def _around(self, name: str, selected: Sequence[Candidate], generation: int, n: int) -> Around:
        try:
            collection = self._open(name)
            if collection.manifest.generation == generation:
                return Around(tuple(_neighbours(collection, selected, n)))
        except CollectionError as error:
            _log.error("Neighbours can't be read: %s", error)  # names files, which are nobody's business
            return Around(notes=("Neighbours are left out: the collection can't be read as it is.",))
        return Around(notes=("Neighbours are left out: the collection changed since it was searched.",))


def _neighbours(collection: Readable, selected: Sequence[Candidate], n: int) -> Iterator[Candidate]:
    seen = {(unit.document_id, unit.number) for candidate in selected for unit in candidate.units}
    for distance in range(1, n + 1):
        for candidate in selected:
            beside = [(unit.document_id, at) for unit in candidate.units for at in _beside(unit, distance)]
            wanted = [at for document, at in beside if (document, at) not in seen]
            seen.update(beside)
            for unit in collection.units(candidate.document.id, wanted):
                yield Candidate(candidate.document, (unit,), (), "", 0.0)


def _beside(unit: SourceUnit, distance: int) -> tuple[int, int]:
    return unit.number - distance, unit.number + distance

"""What can be asked of collections without a question: which there are, and what a document holds."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrag.collection import Collection, Description, Overview, describe, list_collections, overview
from mrag.errors import CollectionError, NotFoundError
from mrag.schema import Record, RecordKind, SourceUnit

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PointingRecord:
    """A record as it stands beside a unit that it points to."""

    id: str
    keys: tuple[str, ...]
    value: str
    fallback: bool


@dataclass(frozen=True)
class CoveredUnit:
    """A source unit, `document.text[start:end]` in characters, and the records that point to it."""

    number: int
    start: int
    end: int
    section: tuple[str, ...]
    page: int | None
    records: tuple[PointingRecord, ...]


@dataclass(frozen=True)
class OpenedDocument:
    """One live document of the generation in force, whole."""

    id: str
    collection: str
    generation: int
    title: str
    metadata: Mapping[str, Any]
    text: str
    units: tuple[CoveredUnit, ...]


@dataclass(frozen=True)
class Reloaded:
    """Which generation questions are answered from, and which is in force on the disk."""

    collection: str
    generation: int
    newest: int


class Library:
    """The collections below `root`; `open_collection` gives the generation in force, and may cache it."""

    def __init__(self, root: Path, open_collection: Callable[[str], Collection]) -> None:
        self._root = root
        self._open = open_collection

    async def collections(self) -> tuple[Overview, ...]:
        """By name. One that can't be read is left out, and named in the log: it costs the others nothing."""
        return await asyncio.to_thread(lambda: tuple(self._overviews()))

    async def overview(self, name: str) -> Overview:
        """One of them. Raises NotFoundError (field `collection`) and CollectionError."""
        return await asyncio.to_thread(overview, self._root, name)

    async def describe(self, name: str) -> Description:
        """All that its manifest says. Raises as `overview` does."""
        return await asyncio.to_thread(describe, self._root, name)

    async def reload(self, name: str) -> Reloaded:
        """Opens what is in force now, not with the next question. Raises as `overview` does.

        Where it can't be opened the generation before goes on answering.
        """
        newest = (await self.overview(name)).generation
        opened = await asyncio.to_thread(self._open, name)
        return Reloaded(name, opened.manifest.generation, newest)

    async def document(self, collection: str, document_id: str) -> OpenedDocument:
        """One live document. Raises NotFoundError (field `collection` or `document`), CollectionError."""
        return await asyncio.to_thread(self._document, collection, document_id)

    def _overviews(self) -> Iterator[Overview]:
        for name in list_collections(self._root):
            try:
                yield overview(self._root, name)
            except NotFoundError:
                continue  # it went between the two looks
            except CollectionError as error:
                _log.warning("Collection %s is not listed: %s", name, error)

    def _document(self, name: str, document_id: str) -> OpenedDocument:
        collection = self._open(name)
        document = collection.document(document_id)
        units = _covered(collection.units(document_id), collection.records(document_id))
        return OpenedDocument(
            document.id,
            name,
            collection.manifest.generation,
            document.title,
            document.metadata,
            document.text,
            tuple(units),
        )


def _covered(units: tuple[SourceUnit, ...], records: tuple[Record, ...]) -> Iterator[CoveredUnit]:
    pointing: dict[int, list[PointingRecord]] = defaultdict(list)
    for record in records:
        fallback = record.kind is RecordKind.FALLBACK
        for number in record.pointers:
            pointing[number].append(PointingRecord(record.id, record.keys, record.value, fallback))
    for unit in units:
        held = tuple(pointing[unit.number])
        yield CoveredUnit(unit.number, unit.start, unit.end, unit.section, unit.page, held)

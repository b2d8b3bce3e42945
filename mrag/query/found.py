"""What the search of a collection finds, and the search in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mrag.collection.manifest import Manifest
from mrag.schema import Hit, Leg, Query, Stored


class Searchable(Protocol):
    """What retrieval needs of an open collection: one generation, all shards."""

    @property
    def manifest(self) -> Manifest:
        """What the generation consists of."""

    def search(self, query: Query) -> Mapping[Leg, tuple[Hit, ...]]:
        """At most `query.depth` live records of each leg, all of which pass its filter."""

    def fetch(self, record_ids: Sequence[str]) -> tuple[Stored, ...]:
        """The records in the order asked."""


@dataclass(frozen=True)
class Found:
    """Hits of each leg, best first, and a sentence for each part of the collection that had no part in it."""

    hits: Mapping[Leg, tuple[Hit, ...]]
    missing: tuple[str, ...] = ()


async def search_here(collection: Searchable, query: Query) -> Found:
    """By what is open in this process: all of it, or an error."""
    return Found(await asyncio.to_thread(collection.search, query))

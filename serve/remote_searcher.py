"""A searcher of a part of every collection, behind a Serve handle."""

from __future__ import annotations

from typing import Any

from mrag.collection.sparse import SparseStatistics
from mrag.query.spread import Hits
from mrag.schema import Query
from serve.calls import call


class RemoteSearcher:
    """A `Searcher` that is the deployment behind `handle`."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    async def prepare(self, name: str, generation: int) -> None:
        """Opens its part of a generation."""
        await call(self._handle.prepare, name, generation)

    async def statistics(self, name: str, generation: int, query: Query) -> SparseStatistics:
        """What it adds to the collection's statistics for the query."""
        found: SparseStatistics = await call(self._handle.statistics, name, generation, query)
        return found

    async def search(
        self, name: str, generation: int, query: Query, statistics: SparseStatistics | None
    ) -> Hits:
        """Its best records of each leg."""
        found: Hits = await call(self._handle.search, name, generation, query, statistics)
        return found

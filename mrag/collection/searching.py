"""What is searched of a collection: its keys (M-RAG III-B), or its keys and beside them its source units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mrag.collection.dense import DenseIndex
from mrag.collection.filtering import Admitted
from mrag.collection.ids import Rows
from mrag.collection.manifest import Counts, Manifest
from mrag.collection.merging import Search, fill, merge
from mrag.collection.shard import RecordSpace
from mrag.collection.sparse import SparseIndex, SparsePart, SparseStatistics
from mrag.collection.summed import SummedScores
from mrag.schema import Hit, Leg, Query, Searched, Vectors
from mrag.settings import DenseSettings, SparseSettings


class Searching(Protocol):
    """Both legs of one retrieval over some shards; a leg that is not open finds nothing."""

    def dense(self, query: Query, vector: Vectors, admitted: Admitted) -> tuple[Hit, ...]:
        """The `depth` best admitted records by inner products, in the order of `merge`."""

    def sparse(
        self, query: Query, admitted: Admitted, collection: SparseStatistics | None
    ) -> tuple[Hit, ...]:
        """The `depth` best admitted records with a word of the query, by BM25, in the order of `merge`.

        `collection` are the statistics for the query where these shards are not all.
        """

    def statistics(self, text: str) -> SparseStatistics:
        """What these shards add to the collection's statistics for a query."""

    def close(self) -> None:
        """Gives files and memory back."""


class KeySearching:
    """Retrieval `keys`: a record is as good as its best key."""

    def __init__(self, space: RecordSpace, dense: DenseIndex | None, sparse: SparseIndex | None) -> None:
        self._space = space
        self._dense = dense
        self._sparse = sparse

    def dense(self, query: Query, vector: Vectors, admitted: Admitted) -> tuple[Hit, ...]:
        """As `Searching` has it."""
        if self._dense is None:
            return ()
        return self._best(partial(self._dense.search, vector, chosen=admitted.keys), query.depth, admitted)

    def sparse(
        self, query: Query, admitted: Admitted, collection: SparseStatistics | None
    ) -> tuple[Hit, ...]:
        """As `Searching` has it."""
        if self._sparse is None:
            return ()
        return self._best(_for_words(self._sparse, query.text, admitted, collection), query.depth, admitted)

    def statistics(self, text: str) -> SparseStatistics:
        """As `Searching` has it."""
        return _statistics(self._sparse, text)

    def _best(self, search: Search, depth: int, admitted: Admitted) -> tuple[Hit, ...]:
        owners = partial(self._space.owners, admitted.records)
        scores, keys, records = fill(search, owners, depth, self._space.keys)
        return merge([self._space.hits(scores, records, keys)], depth)

    def close(self) -> None:
        """As `Searching` has it."""
        if self._sparse:
            self._sparse.close()


class UnitSearching:
    """Retrieval `keys+units`: a record is as good as its best key and the best unit that it points to.

    Dense, the two inner products are added, the unit's by its weight; all of them are computed, or where an
    index is not exact those of what it finds. Sparse, a unit's text is expanded by the keys that lead to
    it, and what is said of a unit holds for every record that points to it.

    Deviation: the paper searches keys alone; docs/notebook.md has what that loses with small extractors.
    """

    def __init__(
        self,
        space: RecordSpace,
        keys: DenseIndex | None,
        units: DenseIndex | None,
        sparse: SparseIndex | None,
    ) -> None:
        self._space = space
        self._pointing = space.pointing()
        self._keys = keys
        self._units = units
        self._sparse = sparse

    def dense(self, query: Query, vector: Vectors, admitted: Admitted) -> tuple[Hit, ...]:
        """As `Searching` has it."""
        if self._keys is None or self._units is None:
            return ()
        scoring = SummedScores(self._space, self._pointing, self._keys, self._units)
        scores, records, keys = scoring.best(vector, query.unit_weight, query.depth, admitted)
        return merge([self._space.hits(scores, records, keys)], query.depth)

    def sparse(
        self, query: Query, admitted: Admitted, collection: SparseStatistics | None
    ) -> tuple[Hit, ...]:
        """As `Searching` has it; the hits are on no key in particular."""
        if self._sparse is None:
            return ()
        search = _for_words(self._sparse, query.text, admitted, collection)
        owners = partial(self._owners, admitted.records)
        scores, _, records = fill(search, owners, query.depth, self._space.units)
        return merge([self._space.hits(scores, records)], query.depth)

    def statistics(self, text: str) -> SparseStatistics:
        """As `Searching` has it."""
        return _statistics(self._sparse, text)

    def _owners(self, admitted: NDArray[np.bool_], units: Rows) -> tuple[Rows, Rows]:
        places, records = self._pointing.records(units)
        found = admitted[records]
        return places[found], records[found]

    def close(self) -> None:
        """As `Searching` has it."""
        if self._sparse:
            self._sparse.close()


# --------------------------------------------------------------------------- opening


def open_searches(
    space: RecordSpace, manifest: Manifest, legs: Sequence[Leg], settings: DenseSettings
) -> Mapping[Searched, Searching]:
    """What can be asked of these shards, each of which has keys. On a GPU only keys alone are searched."""
    shards, dimension = space.shards, manifest.stamp.dimension
    counts = sum((shard.live_counts for shard in shards), Counts())
    dense = sparse = None
    if "dense" in legs:
        dense = DenseIndex([shard.dense_keys for shard in shards], dimension, settings)
    if "sparse" in legs:
        live = SparseStatistics(counts.worded_keys, counts.words)
        sparse = _sparse_index([shard.sparse_keys for shard in shards], live, manifest)
    searches: dict[Searched, Searching] = {"keys": KeySearching(space, dense, sparse)}
    if manifest.stamp.searched == "keys+units":
        units = None
        if "dense" in legs:
            on_cpu = settings.model_copy(update={"device": "cpu"})
            units = DenseIndex([shard.dense_units for shard in shards], dimension, on_cpu)
        if "sparse" in legs:
            live = SparseStatistics(counts.worded_units, counts.unit_words)
            sparse = _sparse_index([shard.sparse_units for shard in shards], live, manifest)
        searches["keys+units"] = UnitSearching(space, dense, units, sparse)
    return searches


def _sparse_index(parts: Sequence[SparsePart], live: SparseStatistics, manifest: Manifest) -> SparseIndex:
    stamp = manifest.stamp
    return SparseIndex(parts, live, SparseSettings(language=stamp.analyzer, k1=stamp.k1, b=stamp.b))


def _statistics(index: SparseIndex | None, text: str) -> SparseStatistics:
    return index.share(text) if index else SparseStatistics()


def _for_words(
    index: SparseIndex, text: str, admitted: Admitted, collection: SparseStatistics | None
) -> Search:
    words = index.words(text, collection.languages if collection else ())
    return partial(index.search, words, collection, documents=admitted.documents)

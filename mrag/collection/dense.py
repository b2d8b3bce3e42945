"""The dense leg: inner products with the vectors of keys or source units.

The vectors themselves are always on disk, and every score is computed from them. A graph (HNSW) or lists of
codes (IVF-PQ) beside them only find which ones to score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mrag.collection.ids import Rows
from mrag.collection.manifest import UNIT_VECTORS
from mrag.collection.payload import starts
from mrag.collection.vector_files import (
    OnGpu,
    faiss,
    mapped_vectors,
    read_graph,
    read_lists,
    write_finder,
    write_vectors,
)
from mrag.collection.vector_kinds import Kind, kind_for
from mrag.schema import Vectors
from mrag.settings import DenseSettings

KEYS = "keys.faiss"
UNITS = UNIT_VECTORS
GPU_MAX_HITS = 2048
Scores = NDArray[np.float32]
Mask = NDArray[np.bool_]


# --------------------------------------------------------------------------- writing


class DenseWriter:
    """Collects the vectors of a shard's keys or units; the first ones give the dimension."""

    def __init__(self, name: str = KEYS, settings: DenseSettings | None = None) -> None:
        self._name = name
        self._settings = settings or DenseSettings()
        self._index: Any = None

    @property
    def dimension(self) -> int:
        """0 before the first vector."""
        return self.shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d); (0, 0) before the first vector."""
        return (self._index.ntotal, self._index.d) if self._index is not None else (0, 0)

    def add(self, vectors: Vectors) -> None:
        """Appends rows (n, d)."""
        if self._index is None:
            self._index = faiss().IndexFlatIP(vectors.shape[1])
        self._index.add(np.ascontiguousarray(vectors, np.float32))

    def write(self, folder: Path) -> Kind | None:
        """Writes the vectors, and what finds among them; nothing where there is no vector."""
        if self._index is None:
            return None
        path = folder / self._name
        write_vectors(self._index, path)
        kind = kind_for(self._settings, *self.shape)
        write_finder(self._index, path, kind)
        return kind


class DenseVectors:
    """The vectors of a shard's keys or units as they were written, mapped into memory."""

    def __init__(self, folder: Path, shape: tuple[int, int], name: str = KEYS) -> None:
        self._dimension = shape[1]
        self._index = mapped_vectors(folder / name, shape) if shape[0] else None

    def rows(self, first: int, end: int) -> Vectors:
        """Those from `first` to before `end`: (end - first, d)."""
        if self._index is None or first == end:
            return np.empty((0, self._dimension), np.float32)
        found: Vectors = self._index.reconstruct_n(int(first), int(end - first))
        return found


# --------------------------------------------------------------------------- searching


@dataclass(frozen=True)
class DensePart:
    """The folder of one shard, which of its vectors live (n,), at least one, their file and their `kind`."""

    folder: Path
    live: Mask
    name: str = KEYS
    kind: str = "flat"


class _Searched(Protocol):
    """The vectors of one file. `exact` where what is found are the best of all."""

    exact: bool

    def search(self, query: Vectors, count: int, chosen: Mask | None) -> tuple[Scores, Rows]: ...

    def scores(self, query: Vectors, rows: Rows | None = None) -> Scores: ...


class DenseIndex:
    """Searches the vectors of some shards (at least one); rows count on from one shard to the next.

    One search is the work of one thread and lets others run; any number may search at once.
    """

    def __init__(self, parts: Sequence[DensePart], dimension: int, settings: DenseSettings) -> None:
        self._parts = [_opened(part, dimension, settings) for part in parts]
        self._first = starts([len(part.live) for part in parts])

    @property
    def exact(self) -> bool:
        """Whether a search finds the best of all vectors, and not most of them."""
        return all(part.exact for part in self._parts)

    def search(self, vector: Vectors, count: int, chosen: Mask | None = None) -> tuple[Scores, Rows]:
        """Scores and rows of the `count` best of the `chosen` (n,), best first; fewer if there are no more.

        By default all that live are chosen. On a GPU dead ones, and others, may be among them. Where the
        index is not `exact` some may be others than the best; scores and number are right nevertheless.
        """
        query = _row(vector)
        masks = [None] * len(self._parts) if chosen is None else np.split(chosen, self._first[1:-1])
        found = [part.search(query, count, mask) for part, mask in zip(self._parts, masks, strict=True)]
        scores = np.concatenate([scores for scores, _ in found])
        rows = np.concatenate([rows + first for (_, rows), first in zip(found, self._first, strict=False)])
        best = np.argsort(-scores, kind="stable")[:count]
        return scores[best], rows[best]

    def scores(self, vector: Vectors) -> Scores:
        """The score of every row (n,), the dead included, as `search` has it. Computed on the CPU."""
        return np.concatenate([part.scores(_row(vector)) for part in self._parts])

    def scores_of(self, vector: Vectors, rows: Rows) -> Scores:
        """The same of some rows, in their order."""
        query, scores = _row(vector), np.empty(len(rows), np.float32)
        places = np.searchsorted(self._first, rows, "right") - 1
        for number in np.unique(places):
            here = places == number
            scores[here] = self._parts[number].scores(query, rows[here] - self._first[number])
        return scores


def _row(vector: Vectors) -> Vectors:
    return np.ascontiguousarray(vector, np.float32).reshape(1, -1)


def _opened(part: DensePart, dimension: int, settings: DenseSettings) -> _Searched:
    """On a GPU a graph is not needed: all vectors are searched there."""
    if settings.index == "flat" or part.kind == "flat" or (part.kind, settings.device) == ("hnsw", "gpu"):
        return _Flat(part, dimension, settings.device)
    flat = _Flat(part, dimension, "cpu")
    path = part.folder / part.name
    if part.kind == "hnsw":
        return _Found(flat, _Graph(path, flat.index, settings.hnsw.ef_search), part.live)
    return _Found(flat, _Lists(path, flat.index, settings), part.live)


class _Flat:
    """One file of vectors, mapped into memory; on a GPU it is copied there."""

    exact = True

    def __init__(self, part: DensePart, dimension: int, device: str) -> None:
        self.index = mapped_vectors(part.folder / part.name, (len(part.live), dimension))
        self._live = np.packbits(part.live, bitorder="little")
        self._gpu = OnGpu(self.index) if device == "gpu" else None

    def search(self, query: Vectors, count: int, chosen: Mask | None) -> tuple[Scores, Rows]:
        """As `DenseIndex.search`, for a query (1, d).

        The selector is given even where all live: with it FAISS sums each product in the same order
        wherever a vector stands, so that equal vectors score equally. GPU indexes can ignore it, and give no
        more than 2048 hits: what goes beyond is searched here.
        """
        count = min(count, self.index.ntotal)
        if self._gpu is not None and count <= GPU_MAX_HITS:
            scores, rows = self._gpu.search(query, count)
        else:
            bits = self._live if chosen is None else np.packbits(chosen, bitorder="little")
            selector = faiss().SearchParameters(sel=faiss().IDSelectorBitmap(bits))
            scores, rows = self.index.search(query, count, params=selector)
        found = rows[0] >= 0
        return scores[0][found], rows[0][found]

    def scores(self, query: Vectors, rows: Rows | None = None) -> Scores:
        """Of these rows, by default of all, for a query (1, d); each product is summed as `search` does."""
        pointer = faiss().swig_ptr
        wanted = np.arange(self.index.ntotal, dtype=np.int64) if rows is None else np.ascontiguousarray(rows)
        scores = np.empty(len(wanted), np.float32)
        self.index.compute_distance_subset(1, pointer(query), len(wanted), pointer(scores), pointer(wanted))
        return scores


# --------------------------------------------------------------------------- not all vectors


class _Finder(Protocol):
    """Finds rows that are worth scoring."""

    def find(self, query: Vectors, count: int, wanted: Mask, many: int) -> Rows | None:
        """At least `count` of the `many` wanted rows (n,), if they can be found; None where scoring all of
        them is no more work."""


class _Found:
    """What a graph or lists find, scored by the vectors; whatever they miss, no result is short."""

    exact = False

    def __init__(self, flat: _Flat, finder: _Finder, live: Mask) -> None:
        self._flat = flat
        self._finder = finder
        self._live = live
        self._living = int(np.count_nonzero(live))

    def search(self, query: Vectors, count: int, chosen: Mask | None) -> tuple[Scores, Rows]:
        """As `DenseIndex.search`, for a query (1, d)."""
        wanted = self._live if chosen is None else chosen
        many = self._living if chosen is None else int(np.count_nonzero(chosen))
        rows = self._finder.find(query, count, wanted, many) if many else None
        if rows is None or len(rows) < min(count, many):
            return self._flat.search(query, count, chosen)
        rows = np.sort(rows)
        scores = self._flat.scores(query, rows)
        best = np.argsort(-scores, kind="stable")[:count]
        return scores[best], rows[best]

    def scores(self, query: Vectors, rows: Rows | None = None) -> Scores:
        """As `_Flat.scores`."""
        return self._flat.scores(query, rows)


class _Graph:
    """HNSW over the mapped vectors. Where few are wanted so many more are looked at as others take places."""

    def __init__(self, path: Path, flat: Any, ef_search: int) -> None:
        self._index = read_graph(path, flat)
        self._flat = flat  # FAISS only points to it.
        self._ef_search = ef_search
        self._neighbours = self._index.hnsw.nb_neighbors(0)

    def find(self, query: Vectors, count: int, wanted: Mask, many: int) -> Rows | None:
        """As `_Finder` has it."""
        breadth = ceil(max(self._ef_search, count) * len(wanted) / many)
        if breadth * self._neighbours >= many:
            return None
        parameters = faiss().SearchParametersHNSW(sel=_selector(wanted), efSearch=breadth)
        rows: Rows = self._index.search(query, count, params=parameters)[1][0]
        return rows[rows >= 0]


class _Lists:
    """IVF-PQ. On a GPU, which may ignore what is wanted, more are asked for, and tested."""

    def __init__(self, path: Path, flat: Any, settings: DenseSettings) -> None:
        self._index = read_lists(path, flat)
        self._gpu = OnGpu(self._index) if settings.device == "gpu" else None
        self._settings = settings.ivf_pq

    def find(self, query: Vectors, count: int, wanted: Mask, many: int) -> Rows | None:
        """As `_Finder` has it. Where few are wanted so many more lists are searched."""
        candidates = count * self._settings.refine
        probes = ceil(self._settings.nprobe * len(wanted) / many)
        if probes >= self._index.nlist or candidates >= many:
            return None
        if self._gpu is None:
            parameters = faiss().SearchParametersIVF(sel=_selector(wanted), nprobe=probes)
            rows: Rows = self._index.search(query, candidates, params=parameters)[1][0]
        else:
            more = min(ceil(candidates * len(wanted) / many), GPU_MAX_HITS)
            rows = self._gpu.search(query, more, params=faiss().SearchParametersIVF(nprobe=probes))[1][0]
        rows = rows[(rows >= 0) & (rows < len(wanted))]
        return rows[wanted[rows]]


def _selector(wanted: Mask) -> Any:
    return faiss().IDSelectorBitmap(np.packbits(wanted, bitorder="little"))

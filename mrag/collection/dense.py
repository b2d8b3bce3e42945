"""The dense leg: exact inner products over the vectors of keys or source units. The only door to FAISS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrag.collection.ids import Rows
from mrag.collection.manifest import UNIT_VECTORS
from mrag.collection.payload import starts
from mrag.collection.storage import damaged
from mrag.errors import SettingsError
from mrag.schema import Vectors
from mrag.settings import DenseSettings

KEYS = "keys.faiss"
UNITS = UNIT_VECTORS
GPU_MAX_HITS = 2048


def _faiss() -> Any:
    import faiss

    return faiss


class DenseWriter:
    """Collects the vectors of a shard's keys or units; the first ones give the dimension."""

    def __init__(self, name: str = KEYS) -> None:
        self._name = name
        self._index: Any = None

    @property
    def dimension(self) -> int:
        """0 before the first vector."""
        return self._index.d if self._index is not None else 0

    def add(self, vectors: Vectors) -> None:
        """Appends rows (n, d)."""
        if self._index is None:
            self._index = _faiss().IndexFlatIP(vectors.shape[1])
        self._index.add(np.ascontiguousarray(vectors, np.float32))

    def write(self, folder: Path) -> None:
        """Writes the file; none where there is no vector."""
        if self._index is not None:
            # By a file of Python's: FAISS's own does not tell when its last bytes found no room.
            with open(folder / self._name, "wb") as file:
                _faiss().write_index(self._index, _faiss().PyCallbackIOWriter(file.write))


class DenseVectors:
    """The vectors of a shard's keys or units as they were written, mapped into memory."""

    def __init__(self, folder: Path, shape: tuple[int, int], name: str = KEYS) -> None:
        self._dimension = shape[1]
        self._index = _mapped(folder / name, shape) if shape[0] else None

    def rows(self, first: int, end: int) -> Vectors:
        """Those from `first` to before `end`: (end - first, d)."""
        if self._index is None or first == end:
            return np.empty((0, self._dimension), np.float32)
        found: Vectors = self._index.reconstruct_n(int(first), int(end - first))
        return found


@dataclass(frozen=True)
class DensePart:
    """The folder of one shard, which of its vectors live (n,), at least one, and the file they are in."""

    folder: Path
    live: NDArray[np.bool_]
    name: str = KEYS


class DenseIndex:
    """Searches the vectors of some shards (at least one); rows count on from one shard to the next.

    One search is the work of one thread and lets others run; any number may search at once.
    """

    def __init__(self, parts: Sequence[DensePart], dimension: int, settings: DenseSettings) -> None:
        self._flats = [_Flat(part, dimension, settings.device) for part in parts]
        self._first = starts([len(part.live) for part in parts])

    def search(
        self, vector: Vectors, count: int, chosen: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.float32], Rows]:
        """Scores and rows of the `count` best of the `chosen` (n,), best first; fewer if there are no more.

        By default all that live are chosen. On a GPU dead ones, and others, may be among them.
        """
        query = _row(vector)
        parts = [None] * len(self._flats) if chosen is None else np.split(chosen, self._first[1:-1])
        found = [flat.search(query, count, part) for flat, part in zip(self._flats, parts, strict=True)]
        scores = np.concatenate([scores for scores, _ in found])
        rows = np.concatenate([rows + first for (_, rows), first in zip(found, self._first, strict=False)])
        best = np.argsort(-scores, kind="stable")[:count]
        return scores[best], rows[best]

    def scores(self, vector: Vectors) -> NDArray[np.float32]:
        """The score of every row (n,), the dead included, as `search` has it. Computed on the CPU."""
        return np.concatenate([flat.scores(_row(vector)) for flat in self._flats])


def _row(vector: Vectors) -> Vectors:
    return np.ascontiguousarray(vector, np.float32).reshape(1, -1)


class _Flat:
    """One file of vectors, mapped into memory; on a GPU it is copied there."""

    def __init__(self, part: DensePart, dimension: int, device: str) -> None:
        self._index = _mapped(part.folder / part.name, (len(part.live), dimension))
        self._live = np.packbits(part.live, bitorder="little")
        self._gpu = _on_gpu(self._index) if device == "gpu" else None
        self._gpu_turn = Lock()

    def search(
        self, query: Vectors, count: int, chosen: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.float32], Rows]:
        """As `DenseIndex.search`, for a query (1, d).

        The selector is given even where all live: with it FAISS sums each product in the same order
        wherever a vector stands, so that equal vectors score equally. GPU indexes can ignore it, are not for
        two threads at once, and give no more than 2048 hits: what goes beyond is searched here.
        """
        count = min(count, self._index.ntotal)
        if self._gpu is not None and count <= GPU_MAX_HITS:
            with self._gpu_turn:
                scores, rows = self._gpu.search(query, count)
        else:
            bits = self._live if chosen is None else np.packbits(chosen, bitorder="little")
            selector = _faiss().SearchParameters(sel=_faiss().IDSelectorBitmap(bits))
            scores, rows = self._index.search(query, count, params=selector)
        found = rows[0] >= 0
        return scores[0][found], rows[0][found]

    def scores(self, query: Vectors) -> NDArray[np.float32]:
        """As `DenseIndex.scores`, for a query (1, d); each product is summed as `search` does."""
        pointer, rows = _faiss().swig_ptr, np.arange(self._index.ntotal, dtype=np.int64)
        scores = np.empty(len(rows), np.float32)
        self._index.compute_distance_subset(1, pointer(query), len(rows), pointer(scores), pointer(rows))
        return scores


def _mapped(path: Path, shape: tuple[int, int]) -> Any:
    faiss = _faiss()
    try:
        # FAISS crashes on a mapped file that ends within its header.
        if path.stat().st_size < np.dtype(np.float32).itemsize * shape[0] * shape[1]:
            raise damaged(path, f"is too short for vectors of the shape {shape}")
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    except (OSError, RuntimeError) as error:
        raise damaged(path, f"is no readable FAISS index ({' '.join(str(error).split())})") from None
    if (index.ntotal, index.d) != shape:
        raise damaged(path, f"has the shape {(index.ntotal, index.d)} instead of {shape}")
    if not isinstance(index, faiss.IndexFlatIP) or index.metric_type != faiss.METRIC_INNER_PRODUCT:
        raise damaged(path, "is no flat index of inner products")
    return index


def _on_gpu(index: Any) -> Any:
    faiss = _faiss()
    if not hasattr(faiss, "StandardGpuResources") or faiss.get_num_gpus() == 0:
        raise SettingsError(
            "dense.device is gpu, but the installed faiss finds no GPU: install faiss-gpu on a machine "
            "that has one, or set dense.device to cpu."
        )
    return faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), 0, index)

"""Files of vectors and of what finds among them: made, written and read. The only door to FAISS.

FAISS trusts the bytes of a graph or of lists: what they say of sizes and links is taken, whatever it is.
Their checksum must be right before they are read.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from mrag.collection.storage import damaged
from mrag.collection.vector_kinds import Kind
from mrag.errors import SettingsError

SEED = 20
FINDERS = (".hnsw", ".ivf-pq")


def faiss() -> Any:
    """The module; importing it takes a while."""
    import faiss

    return faiss


# --------------------------------------------------------------------------- writing


def write_vectors(flat: Any, path: Path) -> None:
    """Writes a flat index."""
    _write(flat, path)


def write_finder(flat: Any, vectors: Path, kind: Kind) -> None:
    """Makes what finds among the vectors of a flat index, and writes it beside them; none for `flat`."""
    if kind.name == "hnsw":
        _write(_graph(flat, kind), _finder_file(vectors, kind.name), faiss().IO_FLAG_SKIP_STORAGE)
    elif kind.name == "ivf-pq":
        _write(_lists(flat, kind), _finder_file(vectors, kind.name))


def _write(index: Any, path: Path, flags: int = 0) -> None:
    # By a file of Python's: FAISS's own does not tell when its last bytes found no room.
    with open(path, "wb") as file:
        faiss().write_index(index, faiss().PyCallbackIOWriter(file.write), flags)


def _finder_file(vectors: Path, kind: str) -> Path:
    return vectors.with_suffix(f".{kind}")


def _graph(flat: Any, kind: Kind) -> Any:
    graph = faiss().IndexHNSWFlat(flat.d, kind.parameters["m"], faiss().METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = kind.parameters["ef_construction"]
    graph.add(flat.reconstruct_n(0, flat.ntotal))
    return graph


def _lists(flat: Any, kind: Kind) -> Any:
    """Trained on the vectors themselves, of which FAISS draws as many as it needs."""
    nlist, code_bytes = kind.parameters["nlist"], kind.parameters["code_bytes"]
    lists = faiss().index_factory(flat.d, f"IVF{nlist},PQ{code_bytes}", faiss().METRIC_INNER_PRODUCT)
    lists.cp.seed = lists.pq.cp.seed = SEED
    vectors = flat.reconstruct_n(0, flat.ntotal)
    lists.train(vectors)
    lists.add(vectors)
    return lists


# --------------------------------------------------------------------------- opening


def mapped_vectors(path: Path, shape: tuple[int, int]) -> Any:
    """The flat index of vectors (n, d), mapped into memory. Raises CollectionError, as the others do."""
    try:
        # FAISS crashes on a mapped file that ends within its header.
        if path.stat().st_size < np.dtype(np.float32).itemsize * shape[0] * shape[1]:
            raise damaged(path, f"is too short for vectors of the shape {shape}")
    except OSError as error:
        raise _unreadable(path, error) from None
    index = _read(path, None, shape, faiss().IO_FLAG_MMAP_IFC)
    if not isinstance(index, faiss().IndexFlatIP) or index.metric_type != faiss().METRIC_INNER_PRODUCT:
        raise damaged(path, "is no flat index of inner products")
    return index


def read_graph(vectors: Path, flat: Any) -> Any:
    """The HNSW graph over a flat index, which must outlive it; the graph itself is read into memory."""
    path = _finder_file(vectors, "hnsw")
    graph = _read(path, faiss().IndexHNSWFlat, (flat.ntotal, flat.d), faiss().IO_FLAG_SKIP_STORAGE)
    graph.storage, graph.own_fields = flat, False
    return graph


def read_lists(vectors: Path, flat: Any) -> Any:
    """The lists of codes beside a flat index."""
    return _read(_finder_file(vectors, "ivf-pq"), faiss().IndexIVFPQ, (flat.ntotal, flat.d))


def _read(path: Path, kind: type | None, shape: tuple[int, int], flags: int = 0) -> Any:
    """An index of this kind and shape."""
    try:
        index = faiss().read_index(str(path), flags)
    except (OSError, RuntimeError, MemoryError) as error:
        raise _unreadable(path, error) from None
    if (index.ntotal, index.d) != shape:
        raise damaged(path, f"has the shape {(index.ntotal, index.d)} instead of {shape}")
    if kind is not None and not isinstance(index, kind):
        raise damaged(path, f"is no {kind.__name__}")
    return index


def _unreadable(path: Path, error: Exception) -> Exception:
    return damaged(path, f"is no readable FAISS index ({' '.join(str(error).split())})")


# --------------------------------------------------------------------------- a GPU


_gpu_turn = RLock()


class OnGpu:
    """A copy of an index on the first GPU. It ignores selectors, and gives no more than 2048 hits.

    All copies share one set of resources, which FAISS lets one thread use at a time: whoever searches one,
    makes one or lets go of one waits for all others. Raises SettingsError where FAISS finds no GPU, or can't
    have the index there.
    """

    def __init__(self, index: Any) -> None:
        if not hasattr(faiss(), "StandardGpuResources") or faiss().get_num_gpus() == 0:
            raise SettingsError(
                "dense.device is gpu, but the installed faiss finds no GPU: install faiss-gpu on a machine "
                "that has one, or set dense.device to cpu."
            )
        with _gpu_turn:
            try:
                self._index = faiss().index_cpu_to_gpu(_gpu_resources(), 0, index)
            except (RuntimeError, MemoryError) as error:
                reason = " ".join(str(error).split())[:300]
                raise SettingsError(
                    f"The GPU can't take an index of {index.ntotal:,} vectors ({reason}): set dense.device "
                    "to cpu, or take a GPU with more memory; lists of codes can also be indexed anew with "
                    "smaller dense.ivf_pq.code_bytes."
                ) from None

    def search(self, query: Any, count: int, params: Any = None) -> Any:
        """Scores and rows, as FAISS has them."""
        with _gpu_turn:
            return self._index.search(query, count, params=params)

    def __del__(self) -> None:
        with _gpu_turn:
            self.__dict__.clear()


@cache
def _gpu_resources() -> Any:
    """One set for the process: each takes memory of its own."""
    return faiss().StandardGpuResources()

"""By what the vectors of a shard are searched: its kind and parameters. Nothing here knows FAISS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isqrt

from mrag.settings import DenseSettings

POINTS_PER_CENTROID = 39  # Fewer, and FAISS calls its own k-means badly trained.
PQ_CENTROIDS = 256
GPU_CODE_BYTES = (96, 64, 56, 48, 40, 32, 28, 24, 20, 16, 12, 8, 4, 3, 2, 1)  # FAISS's GPU takes no others.


@dataclass(frozen=True)
class Kind:
    """`flat`, `hnsw` or `ivf-pq`; the `note` says why it is not the one that was asked for."""

    name: str
    parameters: Mapping[str, int]
    note: str = ""


def kind_for(settings: DenseSettings, vectors: int, dimension: int) -> Kind:
    """What `dense.index` means for so many vectors: flat where there are too few to train on."""
    name = _by_number(settings, vectors) if settings.index == "auto" else settings.index
    if name == "hnsw":
        return Kind(name, settings.hnsw.model_dump())
    if name == "ivf-pq":
        return _ivf_pq(settings, vectors, dimension)
    note = f"auto: fewer than {settings.auto.hnsw_from:,} vectors" if settings.index == "auto" else ""
    return Kind("flat", {}, note)


def _by_number(settings: DenseSettings, vectors: int) -> str:
    if vectors >= settings.auto.ivf_pq_from:
        return "ivf-pq"
    return "hnsw" if vectors >= settings.auto.hnsw_from else "flat"


def _ivf_pq(settings: DenseSettings, vectors: int, dimension: int) -> Kind:
    chosen = settings.ivf_pq
    nlist = chosen.nlist or max(1, min(4 * isqrt(vectors), vectors // POINTS_PER_CENTROID))
    needed = POINTS_PER_CENTROID * max(nlist, PQ_CENTROIDS)
    if vectors < needed:
        return Kind("flat", {}, f"ivf-pq: training needs {needed:,} vectors, and there are {vectors:,}")
    sizes = (size for size in GPU_CODE_BYTES if size <= chosen.code_bytes)
    code_bytes = next(size for size in sizes if not dimension % size)
    parameters = {"nlist": nlist, "nprobe": min(chosen.nprobe, nlist), "code_bytes": code_bytes}
    note = (
        ""
        if code_bytes == chosen.code_bytes
        else f"codes of a size that divides {dimension} and that GPUs take"
    )
    return Kind("ivf-pq", {**parameters, "refine": chosen.refine}, note)

"""What an index that is not exact finds: measured when it is built, against all vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mrag.collection.dense import DenseIndex, DensePart, DenseVectors
from mrag.collection.manifest import VectorSearch
from mrag.collection.vector_kinds import Kind
from mrag.schema import Vectors
from mrag.settings import DenseSettings

DEPTH = 20
QUERIES = 100
COSINE = 0.8
SEED = 20


def vector_search(
    folder: Path, name: str, settings: DenseSettings, kind: Kind, shape: tuple[int, int]
) -> VectorSearch | None:
    """What the manifest keeps of a file of vectors (n, d) that was written; None for plain `flat`."""
    if kind.name == "flat":
        return VectorSearch(name, kind.name, note=kind.note) if kind.note else None
    part = DensePart(folder, np.ones(shape[0], np.bool_), name, kind.name)
    on_cpu = settings.model_copy(update={"device": "cpu"})
    recall = _recall(part, shape, on_cpu)
    return VectorSearch(name, kind.name, kind.parameters, kind.note, round(recall, 4))


def _recall(part: DensePart, shape: tuple[int, int], settings: DenseSettings) -> float:
    """Of the best 20 of all vectors, and of their equals, the share that is found.

    A mean over 100 of the vectors, drawn with a fixed seed, each turned in a direction of chance until its
    cosine with itself is 0.8: a question is near to what answers it, and never the same.
    """
    index = DenseIndex([part], shape[1], settings)
    exact = DenseIndex([part], shape[1], settings.model_copy(update={"index": "flat"}))
    chance = np.random.default_rng(SEED)
    vectors = DenseVectors(part.folder, shape, part.name)
    drawn = chance.choice(shape[0], min(QUERIES, shape[0]), replace=False)
    shares = []
    for row in drawn:
        query = _turned(vectors.rows(row, row + 1)[0], chance)
        best, found = (searched.search(query, DEPTH)[0] for searched in (exact, index))
        shares.append(np.count_nonzero(found >= best[-1]) / len(best))
    return float(np.mean(shares))


def _turned(vector: Vectors, chance: np.random.Generator) -> Vectors:
    """Another vector of the same length, at the given cosine; where there is one dimension, the same."""
    length = np.linalg.norm(vector)
    noise = chance.normal(size=len(vector))
    noise -= (noise @ vector) / length**2 * vector
    norm = np.linalg.norm(noise)
    if norm < 1e-6:
        return vector
    turned: Vectors = (COSINE * vector + np.sqrt(1 - COSINE**2) * length * noise / norm).astype(np.float32)
    return turned

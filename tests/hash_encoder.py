"""An encoder without weights: the same text has the same unit vector, and every other is elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mrag.collection.ids import stable_hash
from mrag.schema import Vectors


class HashEncoder:
    """Sixteen dimensions, drawn by the hash of a text."""

    dimension = 16

    def __init__(self, fingerprint: str = "hash") -> None:
        self.fingerprint = fingerprint

    def encode(self, texts: Sequence[str], kind: str) -> Vectors:
        rows = [np.random.default_rng(stable_hash(text)).normal(size=16) for text in texts]
        return np.array([row / np.linalg.norm(row) for row in rows], np.float32).reshape(-1, 16)

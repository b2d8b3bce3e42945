"""Ids of documents and records: a stable hash of them, and finding rows by it without reading the ids."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def stable_hash(identifier: str) -> int:
    """64 bits that are the same on every machine and in every version of Python."""
    digest = hashlib.blake2b(identifier.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


class IdIndex:
    """From ids to rows by the stored hashes (n,); `read(row)` gives a row's id, to be sure of it."""

    def __init__(self, hashes: NDArray[np.uint64], read: Callable[[int], str]) -> None:
        self._order = np.argsort(hashes, kind="stable")
        self._sorted = hashes[self._order]
        self._read = read

    def find(self, identifiers: Sequence[str]) -> Rows:
        """The row of each id, -1 for one that is not here."""
        hashes = np.fromiter(map(stable_hash, identifiers), np.uint64, len(identifiers))
        first = np.searchsorted(self._sorted, hashes, "left")
        last = np.searchsorted(self._sorted, hashes, "right")
        rows = (self._row(*found) for found in zip(identifiers, first, last, strict=True))
        return np.fromiter(rows, np.int64, len(identifiers))

    def _row(self, identifier: str, first: int, last: int) -> int:
        candidates = (int(self._order[place]) for place in range(first, last))
        return next((row for row in candidates if self._read(row) == identifier), -1)

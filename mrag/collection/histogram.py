"""How often each whole number was seen: millions of lengths in a few kilobytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Bin(NamedTuple):
    """The numbers from `first` to `last`, both included, and how often any of them was seen."""

    first: int
    last: int
    seen: int


class Histogram:
    """Counts of whole numbers from 0. It holds one count for each number up to the greatest one."""

    def __init__(self, values: Iterable[int] = ()) -> None:
        self._counts = np.zeros(0, np.int64)
        self.add(values)

    def add(self, values: Iterable[int] | NDArray[np.int64]) -> None:
        """Counts some more numbers."""
        seen = np.bincount(np.fromiter(values, np.int64), minlength=len(self._counts))
        seen[: len(self._counts)] += self._counts
        self._counts = seen

    def __len__(self) -> int:
        return int(self._counts.sum())

    @property
    def total(self) -> int:
        """The sum of all numbers."""
        return int(self._counts @ np.arange(len(self._counts)))

    @property
    def mean(self) -> float:
        """0.0 where nothing was seen."""
        return self.total / len(self) if len(self) else 0.0

    @property
    def deviation(self) -> float:
        """The standard deviation of the numbers seen (not an estimate for others)."""
        squares = (np.arange(len(self._counts)) - self.mean) ** 2
        return float(np.sqrt(self._counts @ squares / len(self))) if len(self) else 0.0

    @property
    def greatest(self) -> int:
        """0 where nothing was seen."""
        return max(self.counts(), default=0)

    def quantile(self, share: float) -> int:
        """The smallest number that at least this share of all does not exceed; 0 where nothing was seen."""
        return int(np.searchsorted(np.cumsum(self._counts), share * len(self))) if len(self) else 0

    def above(self, limit: int) -> int:
        """How many numbers are greater than `limit`."""
        return int(self._counts[limit + 1 :].sum())

    def counts(self) -> dict[int, int]:
        """How often each number was seen that was seen at all, ascending."""
        return {int(number): int(self._counts[number]) for number in np.flatnonzero(self._counts)}

    def bins(self, most: int, limit: int | None = None) -> Iterator[Bin]:
        """At most `most` bins of one width from 0 to `limit`, or to the greatest number.

        The last one takes what is greater than `limit` too.
        """
        end = self.greatest if limit is None else limit
        width = -(-(end + 1) // most)
        for first in range(0, end + 1, width):
            last = first + width - 1 if first + width <= end else max(first + width - 1, self.greatest)
            yield Bin(first, last, int(self._counts[first : last + 1].sum()))

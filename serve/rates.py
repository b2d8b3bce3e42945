"""Token buckets: how often something may happen, by the name of who does it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

MOST_NAMES = 10_000


class Buckets:
    """A token bucket for each name: it holds a minute's worth and fills evenly.

    Of `most` names at once: beyond that the one that was longest not used is forgotten.
    """

    def __init__(self, clock: Callable[[], float], most: int = MOST_NAMES) -> None:
        self._clock = clock
        self._most = most
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._left)

    def take(self, name: str, per_minute: int) -> float:
        """Takes one; 0 where there was one, else the seconds until there is."""
        left = self._now(name, per_minute)
        taken = left >= 1
        self._left[name] = (left - taken, self._clock())
        self._left.move_to_end(name)
        if len(self._left) > self._most:
            self._left.popitem(last=False)
        return 0.0 if taken else _until_one(left, per_minute)

    def wait_s(self, name: str, per_minute: int) -> float:
        """The seconds until there is one, without taking it."""
        left = self._now(name, per_minute)
        return 0.0 if left >= 1 else _until_one(left, per_minute)

    def _now(self, name: str, per_minute: int) -> float:
        now = self._clock()
        left, seen = self._left.get(name, (float(per_minute), now))
        return min(float(per_minute), left + (now - seen) * per_minute / 60)


def _until_one(left: float, per_minute: int) -> float:
    return (1 - left) * 60 / per_minute

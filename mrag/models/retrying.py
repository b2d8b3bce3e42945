"""When an endpoint is asked again, and how fast it may be asked at all."""

from __future__ import annotations

import asyncio
import email.utils
import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

MINUTE_S = 60.0
# The first wait and the longest: five tries of a busy endpoint outlast the minute that limits are made of.
BUSY_S = (3.0, 60.0)
FAILING_S = (0.5, 8.0)
BUSY = 429
RETRIED = frozenset((408, 409, BUSY))


@dataclass(frozen=True)
class Retries:
    """At most `most` where the endpoint does not say when, and never more than `total_s` of waiting."""

    most: int
    total_s: float

    def wait_s(
        self, status: int | None, headers: Mapping[str, str], tried: int, waited_s: float
    ) -> float | None:
        """Seconds until the next try, after `tried` retries; None where there is none.

        `status` is None where no answer came. What the endpoint asks for (Retry-After) is waited for, as
        often as it asks.
        """
        if status is not None and status not in RETRIED and status < 500:
            return None
        asked_s = retry_after_s(headers)
        if headers.get("x-should-retry") == "false" or (asked_s is None and tried >= self.most):
            return None
        wait_s = _backoff_s(status, tried) if asked_s is None else asked_s
        return wait_s if waited_s + wait_s <= self.total_s else None


def _backoff_s(status: int | None, tried: int) -> float:
    first, longest = BUSY_S if status == BUSY else FAILING_S
    return min(first * 2.0**tried, longest) * random.uniform(0.75, 1.0)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """What the endpoint asks to wait, as seconds or as a date; None where it says nothing of use."""
    said = headers.get("retry-after", "")
    try:
        seconds = float(said)
    except ValueError:
        date = email.utils.parsedate_tz(said)
        seconds = email.utils.mktime_tz(date) - time.time() if date else 0.0
    return seconds if 0 < seconds < float("inf") else None


class Rate:
    """At most `per_minute` in any sixty seconds, whatever that counts; who comes first goes first.

    What is more than that goes alone. One instance belongs to one event loop.
    """

    def __init__(self, per_minute: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()
        self._taken: deque[list[float]] = deque()  # when, and how much

    async def take(self, amount: float) -> None:
        """Waits until there is room for it."""
        async with self._turn:
            while (wait_s := self._wait_s(amount)) > 0:
                self._freed.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._freed.wait(), wait_s)
            self._taken.append([self._clock(), amount])

    def correct(self, taken: float, spent: float) -> None:
        """What was taken has turned out to be another amount."""
        for entry in reversed(self._taken):
            if entry[1] == taken:
                entry[1] = spent
                self._freed.set()
                return

    def _wait_s(self, amount: float) -> float:
        now = self._clock()
        while self._taken and now - self._taken[0][0] >= MINUTE_S:
            self._taken.popleft()
        if not self._taken or sum(taken for _, taken in self._taken) + amount <= self._per_minute:
            return 0.0
        return self._taken[0][0] + MINUTE_S - now

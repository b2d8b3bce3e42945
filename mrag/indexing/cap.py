"""The cap on a run's LLM tokens: what a request may cost is set aside before it is sent; and their count."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from mrag.errors import CapReachedError


class Meter(Protocol):
    """Where the requests of a run set tokens aside, in whatever process they are."""

    async def reserve(self, tokens: int) -> None:
        """Sets `tokens` aside; raises CapReachedError where the cap leaves no room for them."""

    async def settle(self, reserved: int, spent: int) -> None:
        """Replaces what was set aside by what it cost."""


class TokenCap:
    """A cap of `limit` tokens, prompt and reply together: what is sent never costs more.

    A request for which there may still be room, once others have cost less than was set aside for
    them, waits for them.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._spent = self._reserved = 0
        self._settled = asyncio.Condition()

    async def reserve(self, tokens: int) -> None:
        """As `Meter.reserve`."""
        async with self._settled:
            while self._spent + self._reserved + tokens > self._limit:
                if self._spent + tokens > self._limit:
                    raise CapReachedError(
                        f"The cap of {self._limit} LLM tokens leaves no room for it: "
                        "run again with a new cap to go on."
                    )
                await self._settled.wait()
            self._reserved += tokens

    async def settle(self, reserved: int, spent: int) -> None:
        """As `Meter.settle`."""
        async with self._settled:
            self._reserved -= reserved
            self._spent += spent
            self._settled.notify_all()


class ToldMeter:
    """`meter`, where there is one, for a run that wants to be told what each request has cost."""

    def __init__(self, tell: Callable[[int], None], meter: Meter | None = None) -> None:
        self._tell = tell
        self._meter = meter

    async def reserve(self, tokens: int) -> None:
        """As `Meter.reserve`."""
        if self._meter:
            await self._meter.reserve(tokens)

    async def settle(self, reserved: int, spent: int) -> None:
        """As `Meter.settle`."""
        self._tell(spent)
        if self._meter:
            await self._meter.settle(reserved, spent)


class SharedCap:
    """A `TokenCap` for holders in other processes, each of which may end without a word.

    A holder is heard when it reserves, settles or says that it lives. What one that was not heard for
    `silence_s` had set aside counts as spent, as it may have been: nobody waits for it for ever. Should it
    settle after all, its true cost counts.
    """

    def __init__(self, limit: int, silence_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._cap = TokenCap(limit)
        self._silence_s = silence_s
        self._clock = clock
        self._held = Counter[str]()
        self._heard: dict[str, float] = {}

    async def reserve(self, holder: str, tokens: int) -> None:
        """As `Meter.reserve`."""
        granted = asyncio.ensure_future(self._cap.reserve(tokens))
        while not granted.done():
            await asyncio.wait([granted], timeout=self._silence_s / 4)
            await self._give_up_the_silent()
        granted.result()
        self._held[holder] += tokens
        self.lives(holder)

    async def settle(self, holder: str, reserved: int, spent: int) -> None:
        """As `Meter.settle`."""
        self.lives(holder)
        held = min(reserved, self._held[holder])
        self._held[holder] -= held
        await self._cap.settle(held, spent - (reserved - held))

    def lives(self, holder: str) -> None:
        """The holder is there, and what it set aside is under way."""
        self._heard[holder] = self._clock()

    async def _give_up_the_silent(self) -> None:
        now = self._clock()
        for holder, held in tuple(self._held.items()):
            if held and now - self._heard[holder] > self._silence_s:
                self._held[holder] = 0
                await self._cap.settle(held, held)

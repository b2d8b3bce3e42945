"""The cap on a run's LLM tokens: what a request may cost is set aside before it is sent; and their count."""

from __future__ import annotations

import asyncio
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

"""Whether a question could be answered now."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

# Has the generator's model write one token, in at most so many seconds.
Probe = Callable[[float], Awaitable[None]]

TIMEOUT_S = 20.0
KEPT_S = 5.0


class Readiness:
    """Ready is who finds in the configured collection and has the model write a token.

    What was found out holds for `KEPT_S`, and probes that come together share one look: asking often
    costs no more than asking seldom.
    """

    def __init__(self, find: Callable[[float], Awaitable[object]], probe: Probe) -> None:
        self._find = find
        self._probe = probe
        self._looking: asyncio.Task[None] | None = None
        self._until = 0.0

    async def __call__(self) -> None:
        """Raises what keeps a question from being answered."""
        now = asyncio.get_running_loop().time()
        if self._looking is None or (self._looking.done() and now >= self._until):
            self._looking = asyncio.create_task(self._look())
        await asyncio.shield(self._looking)  # One who leaves does not end it for the others.

    async def _look(self) -> None:
        clock = asyncio.get_running_loop().time
        try:
            await asyncio.gather(self._find(TIMEOUT_S), self._probe(TIMEOUT_S))
        finally:
            self._until = clock() + KEPT_S

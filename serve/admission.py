"""How many requests a replica takes: the rest wait, and beyond a bound are turned away at once."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from serve.faults import fault
from serve.handlers import RETRY_AFTER_S, reply

# What tells whether the service lives must not wait behind those that it is busy with.
UNCOUNTED = ("/healthz", "/readyz")
# Requests that a replica takes beside those that are counted here.
SPARE = 16


class Admission:
    """At most `at_once` requests are worked on and `waiting` wait; the next gets 503 with `Retry-After`."""

    def __init__(self, app: ASGIApp, at_once: int, waiting: int) -> None:
        self._app = app
        self._turn = asyncio.Semaphore(at_once)
        self._room = at_once + waiting
        self._inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on when it is its turn."""
        if scope["type"] != "http" or scope["path"] in UNCOUNTED:
            await self._app(scope, receive, send)
        elif self._inside >= self._room:
            busy = fault("unavailable", "The service is busy: try again in a moment.")
            answer = reply(Request(scope), 503, busy, {"Retry-After": str(RETRY_AFTER_S)})
            await answer(scope, receive, send)
        else:
            await self._admitted(scope, receive, send)

    async def _admitted(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._inside += 1
        try:
            async with self._turn:
                await self._app(scope, receive, send)
        finally:
            self._inside -= 1

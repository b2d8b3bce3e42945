"""Who gets in, and how many at once: the rest wait, and beyond a bound are turned away at once."""

from __future__ import annotations

import asyncio
from time import monotonic

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from serve.access import Guard
from serve.faults import fault
from serve.handlers import RETRY_AFTER_S, refusal, reply
from serve.mcp_tools import PATH as MCP

# What tells whether the service lives must not wait behind those that it is busy with.
UNCOUNTED = ("/healthz", "/readyz")
# Requests that a replica takes beside those that are counted here.
SPARE = 16


class Door:
    """Turns away who has no right to be here before the request takes a place, or its body is read.

    Notes in the request's state when it came (`arrived`) and whose it is (`key`).
    """

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, or refuses it as its route would."""
        if scope["type"] == "http":
            request = Request(scope)
            request.state.arrived = monotonic()
            if scope["path"] == MCP or scope["path"].startswith("/v1/"):
                try:
                    self._guard.recognise(request)
                except HTTPException as error:
                    await refusal(request, error)(scope, receive, send)
                    return
        await self._app(scope, receive, send)


class Admission:
    """At most `at_once` requests are worked on and `waiting` wait; the next gets 503 with `Retry-After`.

    So does one that waited for `patience_s`.
    """

    def __init__(self, app: ASGIApp, at_once: int, waiting: int, patience_s: float) -> None:
        self._app = app
        self._turn = asyncio.Semaphore(at_once)
        self._room = at_once + waiting
        self._patience_s = patience_s
        self._inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on when it is its turn."""
        if scope["type"] != "http" or scope["path"] in UNCOUNTED:
            await self._app(scope, receive, send)
        elif self._inside >= self._room:
            await _busy(scope, receive, send)
        else:
            self._inside += 1
            try:
                await self._in_turn(scope, receive, send)
            finally:
                self._inside -= 1

    async def _in_turn(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(self._patience_s):
                await self._turn.acquire()
        except TimeoutError:
            await _busy(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            self._turn.release()


async def _busy(scope: Scope, receive: Receive, send: Send) -> None:
    told = fault("unavailable", "The service is busy: try again in a moment.")
    answer = reply(Request(scope), 503, told, {"Retry-After": str(RETRY_AFTER_S)})
    await answer(scope, receive, send)

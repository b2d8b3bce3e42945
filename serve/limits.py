"""How much of a request is read at all, and how long, whatever it says of itself."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 1_000_000
BODY_TIMEOUT_S = 15.0


class BodyLimit:
    """Ends a request with 413 as soon as its body is known to exceed `MAX_BODY_BYTES`.

    With 408 where the body is not there within `BODY_TIMEOUT_S`: half a body holds a place that
    others wait for.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, watching what is read of it."""
        await self._app(scope, _watched(scope, receive) if scope["type"] == "http" else receive, send)


def _watched(scope: Scope, receive: Receive) -> Receive:
    seen, declared, whole = 0, _declared(scope), False
    deadline = asyncio.get_running_loop().time() + BODY_TIMEOUT_S

    async def watched() -> Message:
        nonlocal seen, whole
        if declared > MAX_BODY_BYTES:
            raise _too_long()
        message = await receive() if whole else await _before(deadline, receive)
        seen += len(message.get("body", b""))
        whole = not message.get("more_body", False)
        if seen > MAX_BODY_BYTES:
            raise _too_long()
        return message

    return watched


async def _before(deadline: float, receive: Receive) -> Message:
    try:
        async with asyncio.timeout_at(deadline):
            return await receive()
    except TimeoutError:
        raise HTTPException(408, f"The body was not there within {BODY_TIMEOUT_S:g} s.") from None


def _too_long() -> HTTPException:
    return HTTPException(413, f"A request may have {MAX_BODY_BYTES} bytes: send a shorter one.")


def _declared(scope: Scope) -> int:
    length = dict(scope["headers"]).get(b"content-length", b"0")
    return int(length) if length.isdigit() and len(length) < 20 else MAX_BODY_BYTES + 1

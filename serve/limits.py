"""How much of a request is read at all, whatever it says of itself."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 1_000_000


class BodyLimit:
    """Ends a request with 413 as soon as its body is known to exceed `MAX_BODY_BYTES`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, counting what is read of it."""
        await self._app(scope, _counted(scope, receive) if scope["type"] == "http" else receive, send)


def _counted(scope: Scope, receive: Receive) -> Receive:
    seen, declared = 0, _declared(scope)

    async def counted() -> Message:
        nonlocal seen
        message = await receive() if declared <= MAX_BODY_BYTES else {"body": b""}
        seen += len(message.get("body", b""))
        if max(seen, declared) > MAX_BODY_BYTES:
            raise HTTPException(413, f"A request may have {MAX_BODY_BYTES} bytes: send a shorter one.")
        return message

    return counted


def _declared(scope: Scope) -> int:
    length = dict(scope["headers"]).get(b"content-length", b"0")
    return int(length) if length.isdigit() and len(length) < 20 else MAX_BODY_BYTES + 1

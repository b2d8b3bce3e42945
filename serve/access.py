"""Who may ask the service: the bearers of its token, or without one the programs of its own machine."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException

from mrag.errors import SettingsError
from mrag.settings import LOOPBACK, Settings

_BEARER = HTTPBearer(auto_error=False)
_LOCAL_HOST = re.compile(rf"(?:{'|'.join(map(re.escape, LOOPBACK))}|\[::1\])(?::\d+)?", re.IGNORECASE)


def token_of(settings: Settings) -> str | None:
    """The bearer token, from the environment variable that the settings name; None where none is wanted."""
    name = settings.serve.token_env
    if name is None:
        return None
    token = os.environ.get(name, "").strip()
    if not token:
        raise SettingsError(f"serve.token_env names {name}, but that environment variable is empty: set it.")
    if not (token.isascii() and token.isprintable()):
        raise SettingsError(f"The token in {name} can't be sent in a header: use printable ASCII.")
    return token


def guard(token: str | None) -> Callable[..., Awaitable[None]]:
    """What every route but the open ones depends on; refuses with 401 or 403."""

    async def check(
        request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]
    ) -> None:
        if token is None:
            if not _is_local(request):
                raise HTTPException(403, "Without serve.token_env this service answers its own machine only.")
        elif credentials is None or not secrets.compare_digest(
            credentials.credentials.encode(), token.encode()
        ):
            raise HTTPException(401, "Send the service's token as `Authorization: Bearer ...`.")

    return check


def _is_local(request: Request) -> bool:
    """Whether a program on this machine asks for itself.

    A proxy on this machine asks for others, and what it or a caller says of them can't be believed. A
    page of another site may have given its own name the address of this machine: hence the Host.
    """
    if request.client is None or request.client.host not in LOOPBACK:
        return False
    if any(name in request.headers for name in ("forwarded", "x-forwarded-for")):
        return False
    return bool(_LOCAL_HOST.fullmatch(request.headers.get("host", "")))

"""Who may ask the service what: the bearers of its tokens, or without any the programs of its own machine."""

from __future__ import annotations

import math
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Annotated, Any, get_args

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from fastapi.security.utils import get_authorization_scheme_param
from starlette.exceptions import HTTPException

from mrag.errors import SettingsError
from mrag.settings import Scope, Settings, TokenSettings, read_tokens, token_hash
from serve.callers import Network, caller_of, is_local
from serve.rates import Buckets

_BEARER = HTTPBearer(auto_error=False, description="A token of the service, where it wants one.")
ALL_SCOPES = frozenset(get_args(Scope))


@dataclass(frozen=True)
class Key:
    """What a bearer may; None stands for all collections, or for no limit."""

    name: str
    scopes: frozenset[str] = ALL_SCOPES
    collections: frozenset[str] | None = None
    requests_per_minute: int | None = None

    def sees(self, collection: str) -> bool:
        """Whether there is such a collection, as far as this bearer may know."""
        return self.collections is None or collection in self.collections


@dataclass(frozen=True)
class Visitor:
    """Who makes one request, when it came (`time.monotonic`), and what is to be told when it is over."""

    key: Key
    arrived: float = field(default_factory=monotonic)
    told: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Keyring:
    """Keys by the SHA-256 of their tokens; without any, this machine's own programs have the key `local`.

    An address may send so many `wrong_per_minute`; who asks through one of the `proxies` is told by it.
    """

    keys: Mapping[str, Key] = field(default_factory=dict)
    local: Key = field(default_factory=lambda: Key("local"))
    wrong_per_minute: int | None = None
    proxies: tuple[Network, ...] = ()


def keyring_of(settings: Settings) -> Keyring:
    """All tokens that the settings name. Raises SettingsError for those that can't be read or used."""
    serve = settings.serve
    listed = serve.tokens + (read_tokens(serve.tokens_file) if serve.tokens_file else ())
    named = [(token.sha256, _key(token, serve.requests_per_minute)) for token in listed]
    if token := token_of(settings):
        own = Key(str(serve.token_env), requests_per_minute=serve.requests_per_minute)
        named.append((token_hash(token), own))
    keys = dict(named)
    if len({key.name for key in keys.values()}) < len(named):
        raise SettingsError(
            "Two tokens of serve.tokens, serve.tokens_file and serve.token_env have one name or hash: "
            "change it."
        )
    if (serve.tokens_file or serve.tokens) and not keys:
        raise SettingsError(
            f"serve.tokens_file {serve.tokens_file} holds no token: make one by `mrag token`."
        )
    local = Key("local", requests_per_minute=serve.requests_per_minute)
    return Keyring(keys, local, serve.wrong_tokens_per_minute, serve.trusted_proxies)


def _key(token: TokenSettings, default: int | None) -> Key:
    seen = None if token.collections is None else frozenset(token.collections)
    return Key(token.name, frozenset(token.scopes), seen, token.requests_per_minute or default)


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


# --------------------------------------------------------------------------- at the door


class Guard:
    """Lets requests in, or refuses them with 401, 403 or 429. Its counts are those of this process."""

    def __init__(self, keyring: Keyring, clock: Callable[[], float] = monotonic) -> None:
        self._keyring = keyring
        self._asked = Buckets(clock)
        self._wrong = Buckets(clock)

    def needs(self, scope: Scope) -> Callable[..., Awaitable[Visitor]]:
        """What a route depends on that only bearers of this scope may use."""

        async def visitor(
            request: Request,
            _told: Annotated[
                HTTPAuthorizationCredentials | None, Depends(_BEARER)
            ],  # by the API's description
        ) -> Visitor:
            return self.admit(request, scope)

        return visitor

    def recognise(self, request: Request) -> Key:
        """Whose request it is, which is found out once for each. Raises HTTPException."""
        if not hasattr(request.state, "key"):
            scheme, token = get_authorization_scheme_param(request.headers.get("Authorization"))
            request.state.key = self._key(request, token if scheme.lower() == "bearer" else None)
        key: Key = request.state.key
        return key

    def admit(self, request: Request, scope: Scope) -> Visitor:
        """The visitor, who is noted in the request's state. Raises HTTPException."""
        visitor = Visitor(self.recognise(request), getattr(request.state, "arrived", monotonic()))
        request.state.visitor = visitor
        key = visitor.key
        if scope not in key.scopes:
            raise HTTPException(403, f"The token {key.name!r} has not the scope {scope!r} that this needs.")
        if key.requests_per_minute and (wait_s := self._asked.take(key.name, key.requests_per_minute)):
            often = f"The token {key.name!r} may ask {key.requests_per_minute} times a minute: wait a moment."
            raise _later(often, wait_s)
        return visitor

    def _key(self, request: Request, token: str | None) -> Key:
        if not self._keyring.keys:
            if not is_local(request):
                raise HTTPException(
                    403, "Without a token in its settings this service answers its own machine only."
                )
            return self._keyring.local
        key = self._found(caller_of(request, self._keyring.proxies), token) if token else None
        if key is None:
            bearer = {"WWW-Authenticate": "Bearer"}
            raise HTTPException(401, "Send a token of the service as `Authorization: Bearer ...`.", bearer)
        return key

    def _found(self, caller: str, token: str) -> Key | None:
        """The key of a token; None for a wrong one, which is counted.

        Who has sent too many is not told whether the next is right: guessing would be as fast as before.
        """
        limit = self._keyring.wrong_per_minute
        if limit and (wait_s := self._wrong.wait_s(caller, limit)):
            raise _later("Too many wrong tokens came from this address: wait a moment.", wait_s)
        # The hash is compared, so that the time which it takes says nothing of any token.
        key = self._keyring.keys.get(token_hash(token))
        if key is None and limit:
            self._wrong.take(caller, limit)
        return key


def _later(sentence: str, wait_s: float) -> HTTPException:
    return HTTPException(429, sentence, {"Retry-After": str(math.ceil(wait_s))})

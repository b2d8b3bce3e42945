"""Who may ask the service: bearer tokens, of which only the SHA-256 is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from mrag.errors import SettingsError
from mrag.settings.strict import Strict
from mrag.yaml_tree import read_yaml

Scope = Literal["read", "write", "admin"]


class TokenSettings(Strict):
    """One token: `sha256` is that of its ASCII characters, in hexadecimal.

    It may do what its `scopes` name, in its `collections` (all of them where none are named), and ask
    `requests_per_minute` of each gateway replica (`serve.requests_per_minute` where it is not given).
    """

    name: str = Field(min_length=1, max_length=64)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    scopes: tuple[Scope, ...] = Field(("read",), min_length=1)
    collections: tuple[str, ...] | None = None
    requests_per_minute: int | None = Field(None, ge=1)


def token_hash(token: str) -> str:
    """What the settings keep of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def check_tokens(tokens: Sequence[TokenSettings]) -> None:
    """Raises ValueError where a name or a hash comes twice: one could not tell who asks."""
    for values in ([token.name for token in tokens], [token.sha256 for token in tokens]):
        for value in values:
            if values.count(value) > 1:
                raise ValueError(f"the token {value!r} is there twice")


def parse_token(tree: Any, origin: str = "the token") -> TokenSettings:
    """One token from plain values. Raises SettingsError."""
    try:
        return TokenSettings.model_validate(tree)
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(map(str, (origin, *fault["loc"])))
        raise SettingsError(f"{place}: {str(fault['msg']).rstrip('.').lower()}.") from None


def read_tokens(path: Path) -> tuple[TokenSettings, ...]:
    """The tokens of a file: a YAML list of what `serve.tokens` may hold. Raises SettingsError."""
    try:
        trees = read_yaml(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"Can't read serve.tokens_file {path}: {error}.") from None
    if not isinstance(trees, list):
        raise SettingsError(
            f"serve.tokens_file {path} must be a list of tokens, as `mrag token` writes them."
        )
    return tuple(parse_token(tree, f"{path}, token {number}") for number, tree in enumerate(trees, start=1))

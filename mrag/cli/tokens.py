"""`mrag token`: a new bearer token of the service, and what the settings keep of it."""

from __future__ import annotations

import json
import secrets
from typing import Annotated

import typer

from mrag.cli.terminal import aside
from mrag.settings import parse_token, token_hash

TOKEN_BYTES = 32


def token(
    name: Annotated[str, typer.Argument(help="Whose token it is, as the log and the metrics name it.")],
    scopes: Annotated[
        list[str] | None, typer.Option("--scope", help="read, write or admin; repeatable. read by default.")
    ] = None,
    collections: Annotated[
        list[str] | None, typer.Option("--collection", help="Only these; repeatable. All by default.")
    ] = None,
    requests_per_minute: Annotated[int | None, typer.Option(min=1, help="Its rate limit.")] = None,
) -> None:
    """Make a bearer token: the token on standard output, on standard error the line for the settings."""
    secret = f"mrag-{secrets.token_urlsafe(TOKEN_BYTES)}"
    given = {"scopes": scopes, "collections": collections, "requests_per_minute": requests_per_minute}
    line = parse_token({"name": name, "sha256": token_hash(secret), **{k: v for k, v in given.items() if v}})
    aside.print("Give the token to its bearer; it is shown once. In serve.tokens, or in serve.tokens_file:")
    typer.echo(f"  - {json.dumps(line.model_dump(mode='json', exclude_unset=True))}", err=True)
    typer.echo(secret)

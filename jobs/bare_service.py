"""The least that a service over a collection can be: one deployment that encodes a question and asks FAISS
and Lucene itself. The benchmark of the service is against it.
"""

from __future__ import annotations

import threading
from typing import Annotated, Any

import typer
from ray import serve as ray_serve
from starlette.requests import Request

from jobs.bare_search import bare_faiss, bare_lucene
from mrag.cli.terminal import Config, Overrides
from mrag.models.opening import open_encoder
from mrag.settings import Settings, load_settings
from serve.connection import connect

PREFIX = "/bare"
READY = "The bare deployment is ready."


class Bare:
    """Answers `{"question": ..., "w": ...}` with the numbers of the best records of both engines."""

    def __init__(self, settings: Settings) -> None:
        root, name = settings.collection.root, settings.collection.name
        self._encoder = open_encoder(settings.encoder)
        self._faiss, self._lucene = bare_faiss(root, name), bare_lucene(root, name, settings.sparse)

    async def __call__(self, request: Request) -> dict[str, Any]:
        """One question after the other."""
        body = await request.json()
        vectors = self._encoder.encode([body["question"]], "query")
        return {
            "dense": self._faiss(vectors[0], body["w"]),
            "sparse": self._lucene(body["question"], body["w"]),
        }


def main(
    config: Config = None,
    overrides: Overrides = None,
    address: Annotated[str, typer.Option(help="The Ray cluster.")] = "auto",
) -> None:
    """Deploy it beside the service on its cluster, until it is ended."""
    settings = load_settings(config, tuple(overrides or ()))
    connect(address)
    deployment = ray_serve.deployment(Bare, ray_actor_options={"num_cpus": 0.1}, max_ongoing_requests=64)
    ray_serve.run(deployment.bind(settings), name="bare", route_prefix=PREFIX)
    typer.echo(READY)
    threading.Event().wait()


if __name__ == "__main__":
    typer.run(main)

"""Starts the service on a running Ray cluster, at the address and port of its settings."""

from __future__ import annotations

import os
import signal
import threading
from typing import Annotated

import ray
import typer
from ray import serve as ray_serve

from mrag.cli.terminal import Config, Overrides
from mrag.errors import MragError
from mrag.settings import Settings, load_settings
from serve.app import build_graph
from serve.calls import APPLICATION
from serve.connection import connect
from serve.exporting import tracing_config

SERVING = "Serving on"


def start(settings: Settings) -> None:
    """Deploys the graph and returns when every stage is ready."""
    serve = settings.serve
    application = build_graph(settings)
    ray_serve.start(
        http_options={"host": serve.host, "port": serve.port, "request_timeout_s": serve.timeout_s + 5},
        tracing_config=tracing_config(settings),
    )
    ray_serve.run(application, name=APPLICATION, route_prefix="/")


def main(
    config: Config = None,
    overrides: Overrides = None,
    address: Annotated[str, typer.Option(help="The Ray cluster.")] = "auto",
) -> None:
    """Serve the collections of a settings file over HTTP until interrupted."""
    try:
        settings = load_settings(config, tuple(overrides or ()))
        connect(address)
        start(settings)
    except MragError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    typer.echo(f"{SERVING} http://{settings.serve.host}:{settings.serve.port} - stop with Ctrl-C.")
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    stopped.wait()
    ray_serve.shutdown()
    ray.shutdown()
    # Ray keeps a thread of a Serve that was shut down; in a usual exit it now and then ends in abort().
    os._exit(0)


if __name__ == "__main__":
    typer.run(main)

"""The ingress: the HTTP API over a pipeline whose stages are the other deployments."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from ray import serve as ray_serve

from mrag.query.pipeline import Pipeline
from mrag.settings import Settings
from serve.access import keyring_of
from serve.calls import Limit, staged, told
from serve.ray_jobs import RayJobs
from serve.remote_models import RemoteLibrary
from serve.routes import create_api
from serve.watching import deployments


@ray_serve.ingress()
class Gateway:
    """Composes the graph and speaks HTTP; holds no model and no index."""

    def __init__(
        self, settings: Settings, retriever: Any, selector: Any, extractor: Any, generator: Any
    ) -> None:
        self._settings = settings
        find, choose, read, write = (
            Limit(name, getattr(settings.serve, name).timeout_s)
            for name in ("retriever", "selector", "extractor", "generator")
        )
        self._library = RemoteLibrary(retriever, find)
        self._probe = staged("ready", generator.ready, write)
        self._pipeline = Pipeline(
            staged("retrieve", retriever.retrieve, find),
            staged("select", selector.select, choose),
            staged("extract", extractor.extract, read),
            staged("generate", generator.generate, write),
            staged("neighbours", retriever.around, find),
            told("generate", generator.stream, write),
            staged("rewrite", generator.rewrite, write),
        )

    def __serve_build_asgi_app__(self) -> FastAPI:
        keyring = keyring_of(self._settings)
        return create_api(
            self._pipeline, self._library, self._settings, keyring, deployments, RayJobs(), self._probe
        )

"""A job that loads no model: it asks those of the service on its cluster, the rest is one process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ray import serve as ray_serve
from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException

from jobs.progress import EVERY_S, Done
from mrag.errors import SettingsError
from mrag.indexing.plan import Plan
from mrag.indexing.report import Report
from mrag.indexing.run import Models, index_folder
from mrag.models.encoder import Encoder, Kind
from mrag.models.language_model import LanguageModel
from mrag.models.opening import counting_model, open_encoder
from mrag.schema import Vectors
from mrag.settings import Settings, require_absolute_root
from serve.calls import APPLICATION, call, plain
from serve.remote_models import RemoteLanguageModel


def index_served(
    settings: Settings, folder: Path, max_llm_tokens: int | None = None, sync: bool = False, wait_s: float = 0
) -> Report:
    """As `jobs.index.index`. Raises SettingsError where no service runs on this cluster."""
    require_absolute_root(settings)
    encoder = ServedEncoder(served("Encoder"), open_encoder(settings.encoder))
    encoder.check()
    models = Models(
        encoder, partial(served_model, settings, served("LanguageModel")), settings.job.served_at_once
    )
    return asyncio.run(index_folder(settings, folder, Lines(), max_llm_tokens, sync, wait_s, models))


def served(deployment: str) -> Any:
    """The handle of a deployment of the running service."""
    try:
        return ray_serve.get_deployment_handle(deployment, APPLICATION)
    except (RayError, RayServeException):
        raise SettingsError(
            f"job.served asks the application {APPLICATION!r}, which does not run on this cluster: "
            "start it, or leave job.served out."
        ) from None


async def served_model(settings: Settings, handle: Any) -> LanguageModel:
    """The service's engine; tokens are counted here. Raises SettingsError for another than the job's."""
    counter = await counting_model(settings.language_model)
    _agree("language model", await call(handle.identity), counter.name)
    return RemoteLanguageModel(handle, counter)


def _agree(what: str, theirs: str, ours: str) -> None:
    if theirs != ours:
        raise SettingsError(
            f"The service's {what} is {theirs!r}, and the job's settings say {ours!r}: "
            "give the job the settings of the service."
        )


class ServedEncoder:
    """An `Encoder` that is a deployment of the service; `own` says which it must be, and loads nothing."""

    def __init__(self, handle: Any, own: Encoder) -> None:
        self._handle = handle
        self._own = own

    @property
    def fingerprint(self) -> str:
        """As the settings have it; `check` compares the service's."""
        return self._own.fingerprint

    @property
    def dimension(self) -> int:
        """Likewise."""
        return self._own.dimension

    def check(self) -> None:
        """Raises SettingsError where the service has another encoder, and ModelError where it is down."""
        _agree("encoder", self._ask(self._handle.fingerprint), self.fingerprint)

    def encode(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """Unit rows, in the order given. Raises ModelError, also where the service does not answer."""
        vectors: Vectors = self._ask(self._handle.encode, list(texts), kind)
        return vectors

    @staticmethod
    def _ask(method: Any, *arguments: Any) -> Any:
        try:
            return method.remote(*arguments).result()
        except (RayError, RayServeException) as error:
            raise plain(error) from None


class Lines:
    """A run's progress as lines of the job's log, at most one every few seconds."""

    def __init__(self) -> None:
        self._plan = Plan(0)
        self._done = Done()
        self._began = self._told = time.monotonic()

    def planned(self, plan: Plan) -> None:
        """What is about to be asked."""
        self._plan = plan
        print(plan.sentence(), flush=True)

    def replied(self, calls: int, tokens: int) -> None:
        """As `Progress` has it."""
        self._tell(Done(self._done.documents, self._done.records, calls, tokens))

    def done(self, documents: int, records: int) -> None:
        """As `Progress` has it; the last document is told in any case."""
        self._tell(Done(documents, records, self._done.calls, self._done.tokens))

    def _tell(self, done: Done) -> None:
        self._done, now = done, time.monotonic()
        if now - self._told >= EVERY_S or done.documents == self._plan.documents:
            self._told = now
            print(done.line(self._plan, now - self._began), flush=True)

"""The graph on one screen: `serve run serve.app:build_app config=configs/local.yaml`.

    HTTP ─> Gateway ─┬─> Retriever ──> Encoder
                     │        └────> Part-1-of-n ... Part-n-of-n, where `serve.parts` is above 1
                     ├─> Selector ───┐
                     ├─> Extractor ──┼─> LanguageModel
                     └─> Generator ──┘

The engine is a deployment around mrag's own seam rather than `ray.serve.llm`: docs/service.md says why.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field
from ray import serve as ray_serve
from ray.serve import Application
from ray.serve.config import BackpressureConfig

from mrag.collection.manifest import Part
from mrag.errors import SettingsError
from mrag.settings import DeploymentSettings, Settings, StageName, load_settings, require_absolute_root
from serve.access import keyring_of
from serve.admission import SPARE
from serve.deployments import (
    EncoderDeployment,
    ExtractorDeployment,
    GeneratorDeployment,
    LanguageModelDeployment,
    PartDeployment,
    RetrieverDeployment,
    SelectorDeployment,
)
from serve.gateway import Gateway
from serve.handlers import RETRY_AFTER_S


class Arguments(BaseModel):
    """What `serve run` and a RayService may pass: a settings file, and `section.key=value` over it."""

    model_config = ConfigDict(extra="forbid")

    config: str | None = None
    overrides: list[str] = Field(default_factory=list)


# No `from __future__ import annotations` here: Ray checks the arguments only against a real class.
def build_app(arguments: Arguments) -> Application:
    """The application of a settings file. Raises SettingsError."""
    path = Path(arguments.config) if arguments.config else None
    return build_graph(load_settings(path, tuple(arguments.overrides)))


def build_graph(settings: Settings) -> Application:
    """Every stage is a deployment of its own; the three share one engine but for `stage_models`."""
    require_absolute_root(settings)
    require_in_force(settings)
    keyring_of(settings)
    serve = settings.serve
    encoder = deployed(EncoderDeployment, serve.encoder).bind(settings)
    model = deployed(LanguageModelDeployment, serve.language_model).bind(settings.language_model)
    parts = [Part(index, serve.parts) for index in range(serve.parts if serve.parts > 1 else 0)]
    searchers = [part_searcher(settings, part) for part in parts]
    retriever = deployed(RetrieverDeployment, serve.retriever).bind(settings, encoder, *searchers)
    selector, extractor, generator = (
        deployed(core, bounds).bind(settings, own_model(settings, core.stage) or model)
        for core, bounds in (
            (SelectorDeployment, serve.selector),
            (ExtractorDeployment, serve.extractor),
            (GeneratorDeployment, serve.generator),
        )
    )
    # Its own bounds are kept inside it (`Admission`), where health is still told beyond them.
    room = serve.gateway.max_ongoing + serve.gateway.max_queued + SPARE
    gateway = deployed(Gateway, serve.gateway).options(max_ongoing_requests=room)
    return gateway.bind(settings, retriever, selector, extractor, generator)


def require_in_force(settings: Settings) -> None:
    """Raises SettingsError for a generation that is named."""
    if settings.collection.generation is not None:
        raise SettingsError(
            "The service answers from the generation in force: leave collection.generation out, "
            "or put it in force by mrag rollback."
        )


def own_model(settings: Settings, stage: StageName) -> Application | None:
    """The engine of a stage that has a model of its own; its name tells whose it is."""
    if settings.model_of(stage) == settings.language_model:
        return None
    deployment = deployed(LanguageModelDeployment, settings.serve.language_model)
    return deployment.options(name=f"LanguageModel-{stage}").bind(settings.model_of(stage))


def part_searcher(settings: Settings, part: Part) -> Application:
    """The deployment of one part; its name tells which, from 1."""
    deployment = deployed(PartDeployment, settings.serve.part)
    return deployment.options(name=f"Part-{part.index + 1}-of-{part.of}").bind(settings, part)


def deployed(core: type, settings: DeploymentSettings) -> ray_serve.Deployment:
    """A deployment with its bounds; a fixed number of replicas where both are one, else autoscaling.

    Beyond its queue the ingress answers 503 by itself, and the others raise BackPressureError where they
    are asked. A call of a stage is no line in Ray's log: the gateway writes one of each request.
    """
    bounds = {
        "min_replicas": settings.min_replicas,
        "max_replicas": settings.max_replicas,
        "target_ongoing_requests": settings.target_ongoing,
    }
    fixed = settings.min_replicas == settings.max_replicas
    return ray_serve.deployment(
        core,
        name=core.__name__.removesuffix("Deployment"),
        num_replicas=settings.min_replicas if fixed else None,
        autoscaling_config=None if fixed else bounds,
        max_ongoing_requests=settings.max_ongoing,
        max_queued_requests=settings.max_queued,
        logging_config={"enable_access_log": False},
        backpressure_config=BackpressureConfig(retry_after_s=RETRY_AFTER_S),
        ray_actor_options={"num_cpus": settings.num_cpus, "num_gpus": settings.num_gpus},
    )

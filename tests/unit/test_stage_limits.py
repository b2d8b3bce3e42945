"""The bounds of each deployment: what Ray is told, who is turned away, and what a late stage costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from ray.serve.exceptions import BackPressureError

from mrag.errors import ModelTimeoutError, SettingsError
from mrag.query.generate import Generated
from mrag.query.pipeline import Pipeline
from mrag.settings import Settings, parse_settings
from serve.access import Keyring
from serve.app import deployed
from serve.calls import Limit, staged, told
from serve.deployments import LanguageModelDeployment, SelectorDeployment
from serve.remote_models import RemoteEncoder, RemoteLanguageModel
from serve.routes import create_api
from tests.served import Shelves, Stages

SOON = 0.05


class Method:
    """A handle's method: of a stage, of one whose queue is full, or of one that never answers."""

    def __init__(self, work: Any = None, full: bool = False) -> None:
        self._work = work
        self._full = full
        self.cancelled = 0

    def remote(self, *arguments: Any) -> asyncio.Future[Any]:
        return asyncio.ensure_future(self._reply(*arguments))

    async def _reply(self, *arguments: Any) -> Any:
        if self._full:
            raise BackPressureError(9, 8)
        if self._work:
            return await self._work(*arguments)
        try:
            return await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


def asking(**methods: Method) -> httpx.AsyncClient:
    """The HTTP API over handles, the stages that are not given as `Stages` has them."""
    stages = Stages()
    names = {"retrieve": "retriever", "select": "selector", "extract": "extractor", "generate": "generator"}
    made = [
        staged(stage, methods.get(stage, Method(getattr(stages, stage))), Limit(deployment, SOON))
        for stage, deployment in names.items()
    ]
    api = create_api(Pipeline(*made), Shelves(), Settings(), Keyring())
    return httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://localhost")


BODY = {"question": "Who built it?"}


def test_ray_is_told_the_bounds_of_each_deployment() -> None:
    tree = {"min_replicas": 1, "max_replicas": 4, "target_ongoing": 3, "max_ongoing": 5, "max_queued": 7}
    serve = parse_settings({"serve": {"selector": tree}}).serve
    deployment = deployed(SelectorDeployment, serve.selector)
    scaling = deployment._deployment_config.autoscaling_config
    assert (deployment.name, deployment.max_ongoing_requests, deployment.max_queued_requests) == (
        "Selector",
        5,
        7,
    )
    assert (scaling.min_replicas, scaling.max_replicas, scaling.target_ongoing_requests) == (1, 4, 3)
    assert deployment.backpressure_config.status_code == 503
    assert deployment.backpressure_config.retry_after_s
    engine = deployed(LanguageModelDeployment, serve.language_model)
    assert (engine.num_replicas, engine.max_queued_requests) == (1, 4096)


@pytest.mark.parametrize(
    ("override", "fault"),
    [
        ({"selector": {"min_replicas": 2}}, "min_replicas must not exceed max_replicas"),
        ({"selector": {"max_queued": 0}}, "max_queued"),
        ({"selector": {"timeout_s": 0}}, "timeout_s"),
        ({"gateway": {"timeout_s": 1}}, "not a setting"),
    ],
)
def test_bounds_that_bound_nothing_are_refused(override: dict[str, Any], fault: str) -> None:
    with pytest.raises(SettingsError, match=fault):
        parse_settings({"serve": override})


def test_an_engine_of_which_one_thing_is_said_keeps_its_other_defaults() -> None:
    engine = parse_settings({"serve": {"language_model": {"max_ongoing": 9}}}).serve.language_model
    assert (engine.max_ongoing, engine.max_queued, engine.num_cpus) == (9, 4096, 1)


@pytest.mark.parametrize("path", ["/v1/query", "/v1/retrieve", "/v1/evidence"])
async def test_a_full_queue_of_the_retriever_is_503_and_says_when_to_come_back(path: str) -> None:
    async with asking(retrieve=Method(full=True)) as http:
        reply = await http.post(path, json=BODY)
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "unavailable")
    assert int(reply.headers["retry-after"]) > 0


@pytest.mark.parametrize(
    ("stage", "path", "setting"),
    [
        ("retrieve", "/v1/query", "serve.retriever.timeout_s"),
        ("retrieve", "/v1/retrieve", "serve.retriever.timeout_s"),
        ("extract", "/v1/evidence", "serve.extractor.timeout_s"),
    ],
)
async def test_without_a_stage_that_must_be_the_error_names_its_time(
    stage: str, path: str, setting: str
) -> None:
    slow = Method()
    async with asking(**{stage: slow}) as http:
        reply = await http.post(path, json=BODY)
    assert (reply.status_code, reply.json()["error"]["code"], slow.cancelled) == (504, "timeout", 1)
    assert setting in reply.json()["error"]["message"]


@pytest.mark.parametrize(
    ("stage", "setting", "text"),
    [
        ("select", "serve.selector.timeout_s", "Ada"),
        ("extract", "serve.extractor.timeout_s", "Ada"),
        ("generate", "serve.generator.timeout_s", ""),
    ],
)
async def test_without_another_the_answer_says_what_took_too_long(
    stage: str, setting: str, text: str
) -> None:
    slow = Method()
    async with asking(**{stage: slow}) as http:
        answer = (await http.post("/v1/query", json=BODY)).json()
    assert (answer["text"], slow.cancelled) == (text, 1)
    (named,) = (one for one in answer["trace"] if one["stage"] == stage)
    assert setting in named["notes"][0]
    assert named["notes"][0] in answer["notes"]


async def test_an_answer_that_streams_has_the_same_time() -> None:
    class Pieces:
        async def pieces(self) -> AsyncIterator[Any]:
            yield "Ada"
            await asyncio.Event().wait()
            yield Generated("Ada")

        def options(self, **_: Any) -> Pieces:
            return self

        def remote(self, *_: Any) -> Any:
            replies = self.pieces()
            self.cancelled = False

            class Replies:
                def __aiter__(self) -> Any:
                    return replies

                def cancel(this) -> None:  # noqa: N805
                    self.cancelled = True

            return Replies()

    method, heard = Pieces(), list[str]()
    with pytest.raises(ModelTimeoutError, match=r"serve\.generator\.timeout_s"):
        await told("generate", method, Limit("generator", SOON))("Who?", None, None, heard.append)
    assert (heard, method.cancelled) == (["Ada"], True)


@pytest.mark.parametrize("name", ["encoder", "language_model"])
async def test_what_stages_ask_has_a_time_too(name: str) -> None:
    class Handle:
        encode = complete = Method()

    limit = Limit(name, SOON)
    work: Any = RemoteEncoder(Handle(), limit).encode(["a"], "query")
    if name == "language_model":
        work.close()
        work = RemoteLanguageModel(Handle(), None, limit).complete(None)  # type: ignore[arg-type]
    with pytest.raises(ModelTimeoutError, match=f"serve.{name}.timeout_s"):
        await work


async def test_a_time_out_of_something_else_stays_what_it_is() -> None:
    async def late() -> None:
        raise TimeoutError("of a socket")

    with pytest.raises(TimeoutError, match="of a socket"):
        await staged("select", Method(late), Limit("selector", 60))()

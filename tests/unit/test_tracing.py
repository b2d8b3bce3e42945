"""Traces: a span for each stage of a request with what came of it, and nothing of what was said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import serve.tracing
from mrag.errors import ModelError, SettingsError
from mrag.query.pipeline import Pipeline
from mrag.schema import Usage
from mrag.settings import parse_settings
from serve.access import Key
from serve.calls import staged
from serve.exporting import Discreet, exporters, tracing_config
from serve.routes import create_api
from tests.served import Shelves, Stages, keyring

SECRET, SAID = "s3cret", "Who built it?"
STAGES = ("retrieve", "select", "extract", "generate")
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(Discreet(exporter)))
    monkeypatch.setattr(serve.tracing, "_TRACER", provider.get_tracer("mrag"))
    yield exporter
    provider.shutdown()


class Handle:
    """A handle's method over a stage of this process."""

    def __init__(self, method: Any) -> None:
        self._method = method

    async def remote(self, *arguments: Any) -> Any:
        return await self._method(*arguments)


class Counting(Stages):
    """Stages that say what they asked of a model; the selection fails where it is told to."""

    broken = False

    async def select(self, *arguments: Any) -> Any:
        if self.broken:
            raise ModelError(f"No use: {SAID}")
        selection = await super().select(*arguments)
        return type(selection)(selection.candidates, Usage(1, 70, 2))


async def asked(
    stages: Stages, path: str, headers: dict[str, str] | None = None, **body: Any
) -> httpx.Response:
    pipeline = Pipeline(*(staged(name, Handle(getattr(stages, name))) for name in STAGES))
    settings = parse_settings({"serve": {"log_questions": True}})
    api = create_api(pipeline, Shelves(), settings, keyring(**{SECRET: Key("t")}))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://localhost") as http:
        sent = {"Authorization": f"Bearer {SECRET}", **(headers or {})}
        return await http.post(path, json={"question": SAID, **body}, headers=sent)


def told(spans: Sequence[ReadableSpan]) -> str:
    return "".join(span.to_json() for span in spans)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_and_its_stages_are_one_trace(kept: InMemorySpanExporter, stream: bool) -> None:
    await asked(Counting(), "/v1/query", {"traceparent": PARENT}, stream=stream)
    *stages, request = kept.get_finished_spans()
    assert [span.name for span in stages] == list(STAGES)
    assert {span.parent and span.parent.span_id for span in stages} == {request.context.span_id}
    assert request.parent
    assert (f"{request.context.trace_id:032x}", f"{request.parent.span_id:016x}") == tuple(
        PARENT.split("-")[1:3]
    )
    assert request.name == "POST /v1/query"
    attributes = dict(request.attributes or {})
    assert attributes.pop("mrag.request")
    assert attributes == {
        "http.request.method": "POST",
        "http.route": "/v1/query",
        "http.response.status_code": 200,
        "gen_ai.usage.input_tokens": 70,
        "gen_ai.usage.output_tokens": 2,
        "mrag.collection": "default",
        "mrag.generation": 7,
        "mrag.reader": "sane",
        "mrag.rows": 1,
        "mrag.verified": 1,
        "mrag.outcome": "answered",
    }
    about = {"mrag.collection": "default", "mrag.generation": 7, "mrag.outcome": "done"}
    assert dict(stages[0].attributes or {}) == {**about, "mrag.candidates": 1}
    used = {"gen_ai.usage.input_tokens": 70, "gen_ai.usage.output_tokens": 2}
    assert dict(stages[1].attributes or {}) == {**about, **used}


async def test_nothing_that_was_said_is_in_a_trace(kept: InMemorySpanExporter) -> None:
    stages = Counting()
    stages.broken = True
    reply = await asked(stages, "/v1/query")
    spans = kept.get_finished_spans()
    assert SAID in reply.text
    for secret in (SAID, SECRET, "Ada", "a.md"):
        assert secret not in told(spans)
    failed = spans[1]
    assert (failed.name, failed.status.status_code) == ("select", StatusCode.ERROR)
    assert (failed.attributes or {})["mrag.outcome"] == "ModelError"


async def test_what_fails_altogether_is_an_error_of_the_request(kept: InMemorySpanExporter) -> None:
    await asked(Stages(ModelError(SAID)), "/v1/retrieve")
    failed, request = kept.get_finished_spans()
    assert failed.name == "retrieve"
    assert request.status.status_code is StatusCode.ERROR
    assert (request.attributes or {})["http.response.status_code"] == 502
    assert SAID not in told([failed, request])


async def test_requests_do_not_know_of_each_other(kept: InMemorySpanExporter) -> None:
    await asked(Stages(), "/v1/retrieve", collection="default")
    await asked(Stages(), "/v1/retrieve", collection="secret")
    spans = kept.get_finished_spans()
    assert [(span.attributes or {})["mrag.collection"] for span in spans] == ["default"] * 2 + ["secret"] * 2
    assert len({span.context.trace_id for span in spans}) == 2


def test_sentences_of_rays_own_spans_are_left_out() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(Discreet(exporter)))
    with provider.get_tracer("ray").start_as_current_span("replica") as span:
        span.record_exception(ValueError(SAID))
        span.set_status(trace.Status(StatusCode.ERROR, SAID))
    (sent,) = exporter.get_finished_spans()
    assert SAID not in sent.to_json()
    assert sent.status.status_code is StatusCode.ERROR
    assert [dict(event.attributes or {}) for event in sent.events] == [{"exception.type": "ValueError"}]


def test_traces_are_off_unless_a_share_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tracing_config(parse_settings({})) is None
    wanted = parse_settings({"serve": {"traced_share": 0.25}})
    config = tracing_config(wanted)
    assert config
    assert (config.enabled, config.sampling_ratio) == (True, 0.25)
    assert config.exporter_import_path == "serve.exporting:exporters"
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.exporter.otlp.proto.http", None)
    with pytest.raises(SettingsError, match="install it"):
        tracing_config(wanted)
    with pytest.raises(SettingsError, match="traced_share"):
        parse_settings({"serve": {"traced_share": 2}})


def test_ray_is_given_processors_of_the_kind_that_it_takes() -> None:
    from ray.serve._private.tracing_utils import (
        _validate_tracing_exporter,
        _validate_tracing_exporter_processors,
    )

    _validate_tracing_exporter(exporters)
    made = exporters()
    _validate_tracing_exporter_processors(made)
    for processor in made:
        processor.shutdown()

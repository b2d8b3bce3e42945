"""Spans of requests and their stages, by OpenTelemetry: what was done, and never what was said.

Ray Serve carries the context from handle to handle (W3C Trace Context) and adds spans of proxies, routers and
replicas; those here say which stage it was and what came of it. Where Ray Serve traces nothing, nor do they.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from mrag.schema import Pool

# Of what is logged of a request: there may be a question in that.
TOLD = ("collection", "generation", "reader", "candidates", "rows", "verified", "outcome", "job", "kind")
_TRACER = trace.get_tracer("mrag")
_QUIET: Mapping[str, Any] = {"record_exception": False, "set_status_on_exception": False}
_PROPAGATOR = TraceContextTextMapPropagator()
_ABOUT: ContextVar[dict[str, Any] | None] = ContextVar("about", default=None)

T = TypeVar("T")


# --------------------------------------------------------------------------- spans


@contextmanager
def request_span(headers: Sequence[tuple[bytes, bytes]]) -> Iterator[trace.Span]:
    """Around one request. Its parent is Ray's span, or where there is none that which the headers name."""
    parent = None
    if not trace.get_current_span().get_span_context().is_valid:
        parent = _PROPAGATOR.extract(
            {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
        )
    token = _ABOUT.set({})
    try:
        with _TRACER.start_as_current_span("request", parent, SpanKind.SERVER, **_QUIET) as span:
            yield span
    finally:
        _ABOUT.reset(token)


def end_request(span: trace.Span, line: Mapping[str, Any]) -> None:
    """Says of it what its line in the log says, but for the question."""
    span.update_name(f"{line['method']} {line['route']}")
    if line["status"] >= 500:
        span.set_status(StatusCode.ERROR)
    span.set_attributes(
        {
            "http.request.method": line["method"],
            "http.route": line["route"],
            "http.response.status_code": line["status"],
            "mrag.request": line["request"],
            **_tokens(line.get("tokens_in", 0), line.get("tokens_out", 0)),
            **{f"mrag.{name}": line[name] for name in TOLD if name in line},
        }
    )


def about(**known: Any) -> None:
    """What all later spans of this request say."""
    kept = _ABOUT.get()
    if kept is not None:
        kept.update({f"mrag.{name}": value for name, value in known.items()})


async def traced(stage: str, work: Awaitable[T]) -> T:
    """The result of a stage, in a span of its own; of what goes wrong that tells the kind alone."""
    with _TRACER.start_as_current_span(stage, **_QUIET) as span:
        outcome = "done"
        try:
            result = await work
            _note(span, result)
        except BaseException as error:
            outcome = type(error).__name__
            span.set_status(StatusCode.ERROR)
            raise
        finally:
            span.set_attributes({**(_ABOUT.get() or {}), "mrag.outcome": outcome})
    return result


def _note(span: trace.Span, result: Any) -> None:
    if isinstance(result, Pool):
        about(generation=result.generation)
        span.set_attribute("mrag.candidates", len(result.candidates))
    elif usage := getattr(result, "usage", None):
        span.set_attributes(_tokens(usage.prompt_tokens, usage.completion_tokens))


def _tokens(prompt: int, completion: int) -> dict[str, int]:
    return {"gen_ai.usage.input_tokens": prompt, "gen_ai.usage.output_tokens": completion}

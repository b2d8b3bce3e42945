"""Where traces go: by OTLP over HTTP, to where OpenTelemetry's own environment variables say."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Status
from ray.serve.schema import TracingConfig

from mrag.errors import SettingsError
from mrag.settings import Settings

KIND = "exception.type"


def tracing_config(settings: Settings) -> TracingConfig | None:
    """What Ray Serve is told, whose every process then calls `exporters`. Raises SettingsError."""
    share = settings.serve.traced_share
    if not share:
        return None
    try:
        import opentelemetry.exporter.otlp.proto.http  # noqa: F401
    except ImportError:
        raise SettingsError(
            "serve.traced_share needs the package opentelemetry-exporter-otlp-proto-http: install it."
        ) from None
    path = f"{__name__}:{exporters.__name__}"
    return TracingConfig(enabled=True, exporter_import_path=path, sampling_ratio=share)


def exporters() -> list[SpanProcessor]:
    """Sends spans in batches, to OTEL_EXPORTER_OTLP_ENDPOINT."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return [BatchSpanProcessor(Discreet(OTLPSpanExporter()))]


class Discreet(SpanExporter):
    """Gives another exporter no sentence: those of errors, which Ray's spans have, may quote anything."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Passes the spans on."""
        return self._exporter.export([without_sentences(span) for span in spans])

    def shutdown(self) -> None:
        """Likewise."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Likewise."""
        return self._exporter.force_flush(timeout_millis)


def without_sentences(span: ReadableSpan) -> ReadableSpan:
    """The same span: of its events name and kind of error, of its status the code."""
    events = [
        Event(event.name, {KIND: (event.attributes or {}).get(KIND, "")}, event.timestamp)
        for event in span.events
    ]
    return ReadableSpan(
        name=span.name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=span.attributes,
        events=events,
        links=span.links,
        kind=span.kind,
        status=Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )

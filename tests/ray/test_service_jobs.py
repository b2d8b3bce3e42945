"""A cluster of its own: jobs over HTTP by Ray's job API, and the trace of a question across deployments."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from jobs.local_cluster import free_port, process, ray_head, wait_until
from serve.run import SERVING

pytestmark = pytest.mark.slow

ALMA = "The ferry Alma was built in 1962."
QUESTION = "When was Alma built?"
RULES = (
    {"purpose": "select", "reply": {"selected": [1]}},
    {
        "purpose": "evidence",
        "reply": {"table": {"schema": "ATOMIC", "rows": [{"source": "S1", "fact": ALMA}]}},
    },
    {"purpose": "answer", "reply": "Alma was built in 1962."},
)


@dataclass
class Collector:
    """What takes spans, as a collector of OpenTelemetry does."""

    bodies: list[bytes] = field(default_factory=list)

    def handler(self) -> type[BaseHTTPRequestHandler]:
        bodies = self.bodies

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        return Handler

    def spans(self) -> list[Any]:
        sent = [ExportTraceServiceRequest.FromString(body) for body in list(self.bodies)]
        return [
            span
            for request in sent
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    kept = Collector()
    server = ThreadingHTTPServer(("127.0.0.1", 0), kept.handler())
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
        yield kept
    server.shutdown()


@pytest.fixture(scope="module")
def url(collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    place = tmp_path_factory.mktemp("jobs")
    (place / "documents" / "boats").mkdir(parents=True)
    (place / "documents" / "boats" / "alma.md").write_text(ALMA)
    (place / "replies.jsonl").write_text("\n".join(map(json.dumps, RULES)))
    port = free_port(8300)
    tree = {
        "method": "sane",
        "collection.root": str(place / "root"),
        "collection.name": "harbour",
        "language_model": {"engine": "scripted", "replies": str(place / "replies.jsonl")},
        "serve.port": port,
        "serve.language_model.num_cpus": 0.1,
        "serve.jobs.roots": [str(place / "documents")],
        "serve.traced_share": 1,
    }
    options = [part for name, value in tree.items() for part in ("--set", f"{name}={json.dumps(value)}")]
    with ray_head(place) as cluster:
        command = [sys.executable, "-m", "serve.run", "--address", cluster.address, *options]
        log = place / "serve.log"
        with process(command, log, cluster.environment) as child:
            wait_until(lambda: SERVING in log.read_text("utf-8", "replace"), "the service", child, log)
            yield f"http://127.0.0.1:{port}"


def ended(url: str, body: dict[str, Any]) -> dict[str, Any]:
    """The job when it has ended, whatever came of it."""
    job: dict[str, Any] = httpx.post(f"{url}/v1/jobs", json=body, timeout=60).raise_for_status().json()
    deadline = time.monotonic() + 120
    while job["status"] in ("pending", "running") and time.monotonic() < deadline:
        time.sleep(0.5)
        job = httpx.get(f"{url}/v1/jobs/{job['id']}", timeout=60).raise_for_status().json()
    return job


def test_a_folder_is_indexed_asked_and_emptied_over_http_and_traced(url: str, collector: Collector) -> None:
    outside = httpx.post(f"{url}/v1/jobs", json={"kind": "index", "folder": "/etc"}, timeout=60)
    assert (outside.status_code, outside.json()["error"]["field"]) == (400, "folder")

    indexed = ended(url, {"kind": "index", "folder": "boats"})
    assert (indexed["status"], indexed["error"]) == ("done", None), indexed
    assert indexed["report"]["counts"]["indexed"] == 1
    assert any("1/1 documents" in line for line in indexed["progress"])

    answer = httpx.post(f"{url}/v1/query", json={"question": QUESTION}, timeout=60).json()
    assert answer["text"] == "Alma was built in 1962."

    deleted = ended(url, {"kind": "delete", "ids": ["alma.md", "$PATH", "a ${PATH}.md"]})
    assert (deleted["status"], deleted["report"]["unknown"]) == ("failed", ["$PATH", "a ${PATH}.md"])
    assert deleted["report"]["deleted"] == ["alma.md"]
    listed = httpx.get(f"{url}/v1/jobs", timeout=60).json()["jobs"]
    assert [job["id"] for job in listed] == [deleted["id"], indexed["id"]]

    state = httpx.get(f"{url}/v1/service", timeout=60).json()
    assert (state["status"], len(state["deployments"])) == ("ok", 7)
    check_trace(collector)


def check_trace(collector: Collector) -> None:
    """One trace goes through all deployments of the question, and says nothing of what was said."""

    def of_the_question() -> set[str]:
        spans = collector.spans()
        found = {span.trace_id for span in spans if span.name == "POST /v1/query"}
        return {span.name for span in spans if span.trace_id in found}

    calls = ("Retriever retrieve", "Encoder encode", "Selector select", "LanguageModel complete")
    wanted = {"retrieve", "select", "extract", "generate"}
    wanted |= {f"replica_handle_request {name}" for name in calls}
    deadline = time.monotonic() + 20
    while not wanted <= of_the_question() and time.monotonic() < deadline:
        time.sleep(0.5)
    assert wanted <= of_the_question()
    assert not any(text.encode() in body for body in collector.bodies for text in (ALMA, QUESTION, "1962"))

"""What is counted, through Ray, for Prometheus to collect; cluster/grafana-dashboard.json shows it.

Each name is that of docs/service.md without the `ray_` which Ray puts before it.
"""

from __future__ import annotations

from ray.util.metrics import Counter, Gauge, Histogram

from mrag.collection.manifest import Manifest
from mrag.query.outcome import abstained, failed, fell_back
from mrag.query.pipeline import Evidence
from mrag.query.question import Question
from mrag.schema import Answer, EvidenceTable, Pool, StageTrace

SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0]


class Meters:
    """The counters of one replica of the gateway."""

    def __init__(self) -> None:
        self._requests = Counter(
            "mrag_requests_total", "HTTP requests, by route and status.", ("method", "route", "status")
        )
        self._request_seconds = Histogram(
            "mrag_request_seconds", "From the request to the end of its reply.", SECONDS, ("route",)
        )
        self._answers = Counter(
            "mrag_answers_total",
            "Answers: answered, abstained, failed, or answered from raw units for want of evidence.",
            ("collection", "reader", "outcome"),
        )
        self._partial = Counter(
            "mrag_partial_total", "Questions that a part did not answer.", ("collection",)
        )
        self._rows = Counter("mrag_evidence_rows_total", "Rows of evidence, by verdict.", ("verdict",))
        self._stage_seconds = Histogram("mrag_stage_seconds", "Stages of questions.", SECONDS, ("stage",))
        self._failures = Counter(
            "mrag_stage_failures_total", "Stages that failed, and were done without.", ("stage",)
        )
        self._tokens = Counter("mrag_llm_tokens_total", "Of language models.", ("stage", "direction"))
        self._generation = Gauge("mrag_generation", "In force, when last asked.", ("collection",))

    def requested(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request that is over."""
        self._requests.inc(tags={"method": method, "route": route, "status": str(status)})
        self._request_seconds.observe(seconds, tags={"route": route})

    def retrieved(self, seconds: float) -> None:
        """A pool that was all that was asked for."""
        self._stage_seconds.observe(seconds, tags={"stage": "retrieve"})

    def found(self, question: Question, result: Pool | Evidence | Answer) -> None:
        """What came of a question."""
        self._generation.set(result.generation, tags={"collection": question.collection})
        if result.partial:
            self._partial.inc(tags={"collection": question.collection})
        if isinstance(result, Pool):
            return
        for stage in result.trace:
            self._stage(stage)
        self._verdicts(result.evidence)
        if isinstance(result, Answer):
            tags = {"collection": question.collection, "reader": question.reader.name}
            self._answers.inc(tags={**tags, "outcome": outcome_of(result)})

    def _stage(self, stage: StageTrace) -> None:
        self._stage_seconds.observe(stage.seconds, tags={"stage": stage.stage})
        if stage.failed:
            self._failures.inc(tags={"stage": stage.stage})
        used = (("in", stage.usage.prompt_tokens), ("out", stage.usage.completion_tokens))
        for direction, tokens in used:
            if tokens:
                self._tokens.inc(tokens, tags={"stage": stage.stage, "direction": direction})

    def _verdicts(self, table: EvidenceTable | None) -> None:
        for row in table.rows if table else ():
            self._rows.inc(tags={"verdict": row.verdict.value})


class CollectionMeters:
    """What one replica of the retriever has open."""

    def __init__(self) -> None:
        self._stuck = Gauge(
            "mrag_collection_stuck", "1 where a later generation can't be opened, else 0.", ("collection",)
        )
        self._dead = Gauge(
            "mrag_dead_share", "Records that no live document has any more, of all.", ("collection",)
        )

    def opened(self, manifest: Manifest, stuck: bool) -> None:
        """A generation that serves from now on, or still does because the next can't be opened."""
        tags = {"collection": manifest.name}
        self._stuck.set(float(stuck), tags=tags)
        self._dead.set(manifest.dead_share, tags=tags)


def outcome_of(answer: Answer) -> str:
    """`failed`, `abstained`, `from_units` (for want of evidence) or `answered`."""
    if failed(answer):
        return "failed"
    if abstained(answer):
        return "abstained"
    return "from_units" if fell_back(answer) else "answered"

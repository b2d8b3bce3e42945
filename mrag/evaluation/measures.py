"""What is measured of a question: each measure is a sum over the questions by another (`Part`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mrag.evaluation.metrics import Part
from mrag.schema import Usage

Recall = Mapping[str, Mapping[int, float]]
FINEST_FIRST = ("passages", "documents")
NOTHING = Part(0.0, 0.0)


@dataclass(frozen=True)
class Row:
    """One question, measured. A measure is None where the question has no label for it, or was not asked.

    `recall` is that of `documents` and of `passages`, by k: over the candidates that a reader of k reads.
    `read` is that of what the answer was read from, and `unselected`, where candidates were selected, of as
    many first ones of the pool. A question that failed has its `error`, and 0 for what it was to be measured
    by. `missing` names gold that the collection does not hold; `found` has the documents of the candidates,
    best first, and `facts` counts the rows of the evidence that may be shown as such. `seconds` are those of
    its replies when they were first asked, `stage_seconds` those of all stages, unless a reply was kept.
    `abstained` says that there was no answer though nothing failed: right where it is `unanswerable`.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    recall: Recall
    found: tuple[str, ...] = ()
    answer: str | None = None
    exact_match: float | None = None
    f1: float | None = None
    read: Mapping[str, float] | None = None
    unselected: Mapping[str, float] | None = None
    evidence_rows: int | None = None
    facts: int | None = None
    usage: Usage | None = None
    seconds: float | None = None
    stage_seconds: float | None = None
    abstained: bool | None = None
    unanswerable: bool = False
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    error: str = ""


def measures(row: Row) -> Iterator[tuple[str, Part]]:
    """All measures that the question has, by name."""
    for kind, by_cutoff in row.recall.items():
        for k, value in by_cutoff.items():
            yield f"recall@{k} of {kind}", Part(value)
    for kind, value in (row.read or {}).items():
        yield f"recall read, of {kind}", Part(value)
    yield from _answering(row)


def table_measures(row: Row) -> Iterator[tuple[str, Part]]:
    """The same for a table of one line a variant: recall is that of passages, or of documents where only
    they are labelled."""
    kind = next((kind for kind in FINEST_FIRST if kind in row.recall), None)
    if kind:
        for k, value in row.recall[kind].items():
            yield f"recall@{k}", Part(value)
        if row.read is not None:
            yield "recall read", Part(row.read[kind])
        if row.read is not None and row.unselected is not None:
            yield "gain", Part(row.read[kind] - row.unselected[kind])
    yield from _answering(row)


def _answering(row: Row) -> Iterator[tuple[str, Part]]:
    if row.exact_match is not None and row.f1 is not None:
        yield "exact match", Part(row.exact_match)
        yield "F1", Part(row.f1)
    if row.abstained is not None and (row.unanswerable or row.answers):
        yield f"abstained of {'un' * row.unanswerable}answerable", Part(float(row.abstained))
    if row.evidence_rows:
        yield "verified", Part(row.facts or 0, row.evidence_rows)
    if row.usage is not None:
        yield "LLM calls", Part(row.usage.calls)
        yield "LLM tokens in", Part(row.usage.prompt_tokens)
        yield "LLM tokens out", Part(row.usage.completion_tokens)
    if row.seconds is not None:
        yield "LLM seconds", Part(row.seconds)
    if row.stage_seconds is not None:
        yield "seconds", Part(row.stage_seconds)


def is_share(measure: str) -> bool:
    """Whether a measure is shown in percent; the others are numbers of calls, tokens and seconds."""
    return measure != "seconds" and not measure.startswith("LLM")


def by_measure(questions: Sequence[Mapping[str, Part]]) -> dict[str, list[Part]]:
    """For each measure that a question has, its part in every question."""
    names = dict.fromkeys(name for parts in questions for name in parts)
    return {name: [parts.get(name, NOTHING) for parts in questions] for name in names}

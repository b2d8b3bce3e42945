"""Values of reading, M-RAG eq. 13 and SANE: contexts, evidence, answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from mrag.schema.offline import SourceUnit, Usage
from mrag.schema.retrieval import Candidate, DocumentInfo


def _date(document: DocumentInfo) -> str:
    given = document.metadata.get("date", document.metadata.get("modified"))
    return " ".join(str(given).split())[:40] if isinstance(given, str | int) else ""


@dataclass(frozen=True)
class Source:
    """Where a piece of an answer comes from, for a person to open. Units and pages are ascending.

    `date` is that of the document, as its metadata have it (SANE Table 9, source date).
    """

    document_id: str
    title: str
    units: tuple[int, ...]
    pages: tuple[int, ...] = ()
    date: str = ""

    @classmethod
    def of(cls, document: DocumentInfo, units: Sequence[SourceUnit]) -> Source:
        """The place of some units of one document, in its order."""
        pages = {unit.page for unit in units if unit.page is not None}
        numbers = tuple(unit.number for unit in units)
        return cls(document.id, document.title, numbers, tuple(sorted(pages)), _date(document))

    @property
    def place(self) -> str:
        """`unit 3, 4, page 12`: the document apart."""
        named = (("unit", self.units), ("page", self.pages))
        return ", ".join(f"{name} {', '.join(map(str, numbers))}" for name, numbers in named if numbers)


@dataclass(frozen=True)
class Context:
    """What the generator reads beside the question: `tokens` are its own, of `text` as assembled.

    `cut` says that even the first value did not fit and was ended at a sentence.
    """

    text: str
    tokens: int
    sources: tuple[Source, ...] = ()
    cut: bool = False


class Verdict(StrEnum):
    """Promise 6: what was checked about a row, without a model."""

    VERIFIED = "verified"
    DERIVED = "derived"
    UNVERIFIED = "unverified"


Operation = Literal["sum", "difference", "ratio", "average"]


@dataclass(frozen=True)
class Derivation:
    """How a row was computed: from the rows of these numbers, in the order of the arithmetic."""

    operation: Operation
    rows: tuple[int, ...]


@dataclass(frozen=True)
class EvidenceRow:
    """One row of the evidence table. `cells` follow the table's columns, quote and source apart.

    `source` names the one unit in which the quote stands; None for a row that is not verified. A derived
    row has neither: its one cell, `derived`, is its arithmetic.
    """

    cells: Mapping[str, str]
    quote: str
    verdict: Verdict
    source: Source | None = None
    derivation: Derivation | None = None


@dataclass(frozen=True)
class EvidenceTable:
    """d of SANE eq. 9. `schema` is a blueprint's name or the model's own; rows are numbered from 1."""

    schema: str
    columns: tuple[str, ...]
    rows: tuple[EvidenceRow, ...] = ()

    @property
    def numbered_facts(self) -> Mapping[int, EvidenceRow]:
        """The rows that may be shown as facts, verified or derived, by their numbers."""
        return {n: row for n, row in enumerate(self.rows, 1) if row.verdict is not Verdict.UNVERIFIED}

    @property
    def facts(self) -> tuple[EvidenceRow, ...]:
        """The same without their numbers."""
        return tuple(self.numbered_facts.values())


@dataclass(frozen=True)
class StageTrace:
    """One stage of one question: wall-clock seconds, what it asked of the model, what it noticed.

    A stage that `failed` was done without.
    """

    stage: str
    seconds: float
    usage: Usage = field(default_factory=Usage)
    notes: tuple[str, ...] = ()
    failed: bool = False


@dataclass(frozen=True)
class Answer:
    """The end of a question. `evidence` is None for the plain reader, `context` None where unused.

    `selected` are the places of the candidates that were read, the first choice first; empty for the plain
    reader.
    `citations` are the numbers of the evidence rows that the text rests on, in the order of the text, which
    has no marks of its own. `partial` is the pool's, and `pool` its candidates where the question is traced.
    """

    question: str
    text: str
    sources: tuple[Source, ...]
    evidence: EvidenceTable | None
    context: Context | None
    generation: int
    trace: tuple[StageTrace, ...]
    notes: tuple[str, ...] = ()
    selected: tuple[Source, ...] = ()
    citations: tuple[int, ...] = ()
    partial: bool = False
    pool: tuple[Candidate, ...] = ()

"""The values that travel through the pipeline: frozen, plain, ignorant of storage and of Ray.

Numbers of equations and tables are those of the two papers: M-RAG (access path) and SANE (reading).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Leg = Literal["dense", "sparse"]
Searched = Literal["keys", "keys+units"]
Scalar = bool | int | float | str


# --------------------------------------------------------------------------- offline: M-RAG III


@dataclass(frozen=True)
class Heading:
    """A heading that stands in a document's text at [start, end); level 1 is the highest."""

    start: int
    end: int
    level: int
    text: str


@dataclass(frozen=True)
class Document:
    """One document D_n. `metadata` holds JSON values only (dates as ISO 8601 strings).

    `headings` are in order and do not overlap; loaders find them, whatever the format. `pages` has the
    offset at which each page begins, ascending; it is empty where the format has no pages.
    """

    id: str
    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    headings: tuple[Heading, ...] = ()
    pages: tuple[int, ...] = ()


@dataclass(frozen=True)
class SourceUnit:
    """s_{n,j} of eq. 1. `document.text[start:end] == text`, in characters, always.

    `number` counts from 1 in document order; `section` is the path of headings above the unit; `page`
    is the one on which it begins, from 1, or None where the document has no pages.
    """

    document_id: str
    number: int
    start: int
    end: int
    text: str
    section: tuple[str, ...] = ()
    page: int | None = None


class RecordKind(StrEnum):
    """Who made a record: an extractor, the coverage repair, or a rule (units and chunks)."""

    MARKER = "marker"
    FALLBACK = "fallback"
    UNIT = "unit"
    CHUNK = "chunk"


@dataclass(frozen=True)
class Record:
    """m_{n,i} = (k, v, p) of eq. 3: what is searched, what is read, where it comes from.

    `keys` holds at least one key; every one of them leads to the same value.
    `pointers` are numbers of source units of the one document, ascending, without repetition.
    `id` is stable: the same document, content and builder give the same id in every run.
    """

    id: str
    document_id: str
    keys: tuple[str, ...]
    value: str
    pointers: tuple[int, ...]
    kind: RecordKind = RecordKind.MARKER


@dataclass(frozen=True)
class Coverage:
    """Eq. 9 for one document, before and after the repair.

    `extracted` counts units that a marker points to, `fallback` those that only a fallback record does.
    """

    units: int
    extracted: int
    fallback: int

    @property
    def before_repair(self) -> float:
        """cov(D_n) of eq. 9 over the extracted markers; 1.0 for a document without units."""
        return self.extracted / self.units if self.units else 1.0

    @property
    def after_repair(self) -> float:
        """The same over all records; 1.0 unless the promise of reachability is broken."""
        return (self.extracted + self.fallback) / self.units if self.units else 1.0


@dataclass(frozen=True)
class Usage:
    """What was asked of a language model: calls, and tokens as the model itself counts them."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
        )

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens together: what a cap counts."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True)
class Built:
    """What a builder makes of one document. `rejected` counts failed parts of replies, by reason; `usage` is
    what this run asked of the model, `reused` what earlier ones paid for replies that the ledger kept;
    `source_tokens` are those of the units, as the encoder counts.
    """

    document: Document
    units: tuple[SourceUnit, ...]
    records: tuple[Record, ...]
    coverage: Coverage
    usage: Usage = Usage()
    rejected: Mapping[str, int] = field(default_factory=dict)
    reused: Usage = Usage()
    source_tokens: int = 0


class Status(StrEnum):
    """How one input ended. The seven add up to the input; only `failed` makes a run fail."""

    INDEXED = "indexed"
    UNCHANGED = "unchanged"
    EMPTY = "empty"
    DUPLICATE = "duplicate"
    UNSUPPORTED = "unsupported"
    PENDING = "pending"
    FAILED = "failed"


@dataclass(frozen=True)
class Outcome:
    """The end of one input: `id` is the document's, or the file's path where none could be read; `detail` is
    empty or one sentence (the reason of a failure, the first copy of a duplicate).
    """

    id: str
    status: Status
    detail: str = ""
    records: int = 0
    coverage: Coverage = Coverage(0, 0, 0)
    usage: Usage = Usage()
    rejected: Mapping[str, int] = field(default_factory=dict)
    reused: Usage = Usage()
    source_tokens: int = 0


# --------------------------------------------------------------------------- retrieval: eq. 12


@dataclass(frozen=True)
class Condition:
    """What one value of a document's metadata field must pass: each test with its operands.

    The tests are `equals`, `in`, `gt`, `gte`, `lt`, `lte` and `prefix`; all but `in` have one operand.
    """

    field: str
    tests: tuple[tuple[str, tuple[Scalar, ...]], ...]


Filter = tuple[Condition, ...]  # all must hold


@dataclass(frozen=True)
class Query:
    """One search of the access path. `depth` is the number of live records wanted from each leg.

    `vector` is a unit row (d,) or None when the dense leg is off; `text` feeds the sparse leg.
    `unit_weight` is that of a source unit's inner product beside its record's best key's (`keys+units`).
    Only records of documents that pass the `filter` are found.
    """

    text: str
    depth: int
    legs: tuple[Leg, ...] = ("dense", "sparse")
    vector: Vectors | None = None
    searched: Searched = "keys"
    unit_weight: float = 2.0
    filter: Filter = ()


@dataclass(frozen=True)
class Hit:
    """A record found by a leg: its score (inner product, or BM25) and which of its keys matched best.

    `key` is None where a source unit was hit and its keys can't be told apart.
    """

    record_id: str
    score: float
    key: int | None = 0


@dataclass(frozen=True)
class DocumentInfo:
    """A document without its text, as answers and synopses show it."""

    id: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Stored:
    """A record as the collection returns it, with its document and the units it points to."""

    record: Record
    document: DocumentInfo
    units: tuple[SourceUnit, ...]


@dataclass(frozen=True)
class Candidate:
    """c_i of the pool (SANE eq. 3): the records that point to the same units, best first.

    `scores` are the best per leg, `score` is the fused one, `key` is the key that matched best. `ranks` are
    those of the records among all that were found, from 1.
    """

    document: DocumentInfo
    units: tuple[SourceUnit, ...]
    records: tuple[Record, ...]
    key: str
    score: float
    scores: Mapping[Leg, float] = field(default_factory=dict)
    ranks: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """The source text of the units, paragraphs apart; what SANE calls the raw content."""
        return "\n\n".join(unit.text for unit in self.units)


@dataclass(frozen=True)
class Pool:
    """The w best candidates, best first, and what was noticed; `partial`: a part of the index is missing."""

    candidates: tuple[Candidate, ...]
    generation: int = 0
    notes: tuple[str, ...] = ()
    partial: bool = False


# --------------------------------------------------------------------------- reading: eq. 13, SANE


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
    usage: Usage = Usage()
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

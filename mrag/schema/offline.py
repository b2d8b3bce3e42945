"""Values of the offline stage, M-RAG III: documents become records; and what came of each input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


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

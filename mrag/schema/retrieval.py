"""Values of retrieval, M-RAG eq. 12: a query, its hits, and the pool of candidates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mrag.schema.offline import Record, SourceUnit

Vectors = NDArray[np.float32]
Leg = Literal["dense", "sparse"]
Searched = Literal["keys", "keys+units"]
Scalar = bool | int | float | str


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

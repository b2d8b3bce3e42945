"""M-RAG IV-C: what an index looks like, counted over the live records in one pass, block by block.

Deviation: chunks and unit records (builders `fixed`, `units`) count as extracted, so that builders compare.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import nlargest, nsmallest
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mrag.collection.histogram import Histogram
from mrag.collection.ids import Rows
from mrag.collection.manifest import Counts
from mrag.collection.shard import Shard
from mrag.collection.storage import understood
from mrag.schema import RecordKind, Stored, Usage

EXAMPLES = 5
LOWEST = 10
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class DocumentCoverage:
    """cov(D_n) of eq. 9 over the extracted records of one document."""

    document_id: str
    title: str
    units: int
    covered: float


@dataclass(frozen=True)
class CoverageStatistics:
    """Table III. `average` and `variance` (of the percentages) are over documents, the counts over all units.

    `extracted` counts units that an extracted record points to, `reached` those that any record does;
    `lowest` names documents below full coverage, the worst first.
    """

    units: int
    extracted: int
    reached: int
    average: float
    variance: float
    lowest: tuple[DocumentCoverage, ...]

    @property
    def fallback(self) -> float:
        """Share of the units that only the repair reaches; 0.0 where there are no units."""
        return (self.reached - self.extracted) / self.units if self.units else 0.0


@dataclass(frozen=True)
class PointerStatistics:
    """Table IV and Fig. 4, over extracted records by how their pointers lie.

    `gaps` counts the distances from a pointer to the next one of its record that are more than one unit,
    `spans` those from the first pointer of a scattered record to its last.
    """

    single: int = 0
    consecutive: int = 0
    scattered: int = 0
    gaps: Histogram = field(default_factory=Histogram)
    spans: Histogram = field(default_factory=Histogram)

    @property
    def total(self) -> int:
        """All extracted records."""
        return self.single + self.consecutive + self.scattered


@dataclass(frozen=True)
class LengthStatistics:
    """Fig. 5: token lengths of the keys and values of extracted records, and of all source units."""

    keys: Histogram
    values: Histogram
    units: Histogram
    keys_per_record: Histogram


@dataclass(frozen=True)
class IndexAnalysis:
    """All analyses of one generation; `usage` and `rejected` are what its live documents cost.

    `live_documents` are those of each shard.
    """

    counts: Counts
    kinds: Mapping[RecordKind, int]
    coverage: CoverageStatistics
    pointers: PointerStatistics
    lengths: LengthStatistics
    usage: Usage
    rejected: Mapping[str, int]
    repaired: tuple[Stored, ...]
    scattered: tuple[Stored, ...]
    live_documents: tuple[int, ...] = ()


def analyse(counts: Counts, shards: Iterable[Shard], count_tokens: Callable[[str], int]) -> IndexAnalysis:
    """Reads every live key, value and unit once; keeps a few bytes a unit of one shard in memory."""
    tally = _Tally(count_tokens)
    for shard in shards:
        with understood(shard.folder):
            tally.add(shard)
    return tally.analysis(counts)


# --------------------------------------------------------------------------- blocks of records


@dataclass(frozen=True)
class _Block:
    """Live records that stand near each other: `rows` in their shard, `columns` as they are stored.

    `pointers` are those of all of them, one behind the other; `owners` says whose (a place in `rows`).
    """

    rows: Rows
    columns: Any
    extracted: Mask
    pointers: Rows
    owners: Rows


def _blocks(shard: Shard) -> Iterator[_Block]:
    for first, batch in shard.payload.record_batches():
        live = shard.live_records[first : first + batch.num_rows]
        columns = batch.filter(pa.array(live))
        kinds = np.array(columns.column("kind").to_pylist(), np.str_)
        lists = columns.column("pointers")
        lengths = lists.value_lengths().to_numpy(zero_copy_only=False)
        yield _Block(
            rows=first + np.flatnonzero(live),
            columns=columns,
            extracted=kinds != RecordKind.FALLBACK,
            pointers=lists.flatten().to_numpy(zero_copy_only=False).astype(np.int64),
            owners=np.repeat(np.arange(len(lengths)), lengths),
        )


def _unit_rows(shard: Shard, block: _Block) -> Rows:
    """The row of the unit behind each pointer of a block."""
    payload = shard.payload
    documents = np.searchsorted(payload.first_record, block.rows, "right") - 1
    rows: Rows = payload.first_unit[documents][block.owners] + block.pointers - 1
    return rows


# --------------------------------------------------------------------------- counting


class _Tally:
    """The sums so far, over the shards that were added."""

    def __init__(self, count_tokens: Callable[[str], int]) -> None:
        self._count_tokens = count_tokens
        self._kinds: Counter[RecordKind] = Counter()
        self._coverage = _CoverageTally()
        self._pointers = _PointerTally()
        self._lengths = LengthStatistics(*(Histogram() for _ in range(4)))
        self._usage = Usage()
        self._rejected: Counter[str] = Counter()
        self._repaired: list[Stored] = []
        self._live_documents: list[int] = []

    def add(self, shard: Shard) -> None:
        payload = shard.payload
        reached, extracted = (np.zeros(payload.first_unit[-1], np.bool_) for _ in range(2))
        for block in _blocks(shard):
            units = _unit_rows(shard, block)
            reached[units] = True
            extracted[units[block.extracted[block.owners]]] = True
            self._add_records(shard, block)
        self._live_documents.append(int(shard.live_documents.sum()))
        self._coverage.add(shard, reached, extracted)
        for row in np.flatnonzero(shard.live_documents):
            self._lengths.units.add(map(self._count_tokens, payload.unit_texts(row)))
        self._usage += payload.documents.used(shard.live_documents)
        self._rejected += payload.documents.rejected(shard.live_documents)

    def _add_records(self, shard: Shard, block: _Block) -> None:
        self._kinds.update(map(RecordKind, block.columns.column("kind").to_pylist()))
        self._pointers.add(shard, block)
        self._add_lengths(block.columns.filter(pa.array(block.extracted)))
        for row in block.rows[~block.extracted][: EXAMPLES - len(self._repaired)]:
            self._repaired.append(shard.stored(int(row)))

    def _add_lengths(self, extracted: Any) -> None:
        keys, values = extracted.column("keys"), extracted.column("value")
        self._lengths.keys.add(map(self._count_tokens, keys.flatten().to_pylist()))
        self._lengths.values.add(map(self._count_tokens, values.to_pylist()))
        self._lengths.keys_per_record.add(keys.value_lengths().to_pylist())

    def analysis(self, counts: Counts) -> IndexAnalysis:
        return IndexAnalysis(
            counts=counts,
            kinds={kind: self._kinds[kind] for kind in RecordKind if self._kinds[kind]},
            coverage=self._coverage.statistics(),
            pointers=self._pointers.statistics(),
            lengths=self._lengths,
            usage=self._usage,
            rejected=dict(self._rejected.most_common()),
            repaired=tuple(self._repaired),
            scattered=self._pointers.examples(),
            live_documents=tuple(self._live_documents),
        )


class _CoverageTally:
    def __init__(self) -> None:
        self._shares: list[NDArray[np.float64]] = []
        self._units = self._reached = self._extracted = 0
        self._lowest: list[DocumentCoverage] = []

    def add(self, shard: Shard, reached: Mask, extracted: Mask) -> None:
        """What is reached and extracted of all units of a shard, those of dead documents among them."""
        documents = np.flatnonzero(shard.live_documents & (np.diff(shard.payload.first_unit) > 0))
        units, all_reached, all_extracted = (
            _per_document(shard, mask)[documents] for mask in (np.ones_like(reached), reached, extracted)
        )
        self._units += int(units.sum())
        self._reached += int(all_reached.sum())
        self._extracted += int(all_extracted.sum())
        shares = all_extracted / units
        self._shares.append(shares)
        worst = nsmallest(LOWEST, np.flatnonzero(shares < 1), key=shares.__getitem__)
        named = [_named(shard, int(documents[at]), int(units[at]), float(shares[at])) for at in worst]
        self._lowest = nsmallest(LOWEST, [*self._lowest, *named], key=lambda document: document.covered)

    def statistics(self) -> CoverageStatistics:
        percentages = 100 * np.concatenate([*self._shares, np.zeros(0)])
        average = float(percentages.mean()) / 100 if len(percentages) else 1.0
        variance = float(percentages.var()) if len(percentages) else 0.0
        return CoverageStatistics(
            self._units, self._extracted, self._reached, average, variance, tuple(self._lowest)
        )


def _per_document(shard: Shard, units: Mask) -> Rows:
    """How many units of each document are marked."""
    sums = np.concatenate([[0], np.cumsum(units)])
    counts: Rows = np.diff(sums[shard.payload.first_unit])
    return counts


def _named(shard: Shard, row: int, units: int, covered: float) -> DocumentCoverage:
    info = shard.payload.info(row)
    return DocumentCoverage(info.id, info.title, units, covered)


class _PointerTally:
    def __init__(self) -> None:
        self._single = self._consecutive = self._scattered = 0
        self._gaps, self._spans = Histogram(), Histogram()
        self._widest: list[tuple[int, Shard, int]] = []

    def add(self, shard: Shard, block: _Block) -> None:
        """Pointers ascend: those that span no more units than they are many are neighbours."""
        kept = block.extracted[block.owners]
        pointers, owners = block.pointers[kept], block.owners[kept]
        begins = np.flatnonzero(np.diff(owners, prepend=-1))
        ends = np.flatnonzero(np.diff(owners, append=-1))
        lengths, spans = ends - begins + 1, pointers[ends] - pointers[begins]
        scattered = spans >= lengths
        self._single += int((lengths == 1).sum())
        self._consecutive += int((~scattered & (lengths > 1)).sum())
        self._scattered += int(scattered.sum())
        steps = np.diff(pointers)[np.diff(owners) == 0]
        self._gaps.add(steps[steps > 1])
        self._spans.add(spans[scattered])
        self._add_examples(shard, block.rows[owners[begins[scattered]]], spans[scattered])

    def _add_examples(self, shard: Shard, rows: Rows, spans: Rows) -> None:
        widest = nlargest(EXAMPLES, range(len(rows)), key=spans.__getitem__)
        found = [(int(spans[at]), shard, int(rows[at])) for at in widest]
        self._widest = nlargest(EXAMPLES, [*self._widest, *found], key=lambda example: example[0])

    def statistics(self) -> PointerStatistics:
        return PointerStatistics(self._single, self._consecutive, self._scattered, self._gaps, self._spans)

    def examples(self) -> tuple[Stored, ...]:
        """The records with the widest spans."""
        return tuple(shard.stored(row) for _, shard, row in self._widest)

"""The analyses of M-RAG IV-C: on a collection that a person can count, and against plain counting on any."""

from __future__ import annotations

import statistics
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.collection import Collection, Counts, Histogram, IndexAnalysis, ShardEntry, ShardInfo
from mrag.collection.index_analysis import EXAMPLES, analyse
from mrag.collection.payload_writing import PayloadWriter
from mrag.collection.shard import Shard
from mrag.schema import RecordKind, Usage
from tests.collection_corpus import add, built_entry

M, F, C = RecordKind.MARKER, RecordKind.FALLBACK, RecordKind.CHUNK
FERRY = built_entry(
    "ferry",
    ["one", "two words", "three words here", "four", "five"],
    [
        (M, (1,), ["who built it"], "a value"),
        (M, (1, 2), ["when", "in which year"], "a longer value"),
        (M, (2, 5), ["where to"], "a value of four"),
        (F, (3,), ["three words here"], "three words here"),
        (F, (4,), ["four"], "four"),
    ],
    Usage(3, 100, 40),
    {"it has no key": 2, "its value is empty": 1},
)
PORT = built_entry(
    "port",
    ["six six", "seven"],
    [(M, (1,), ["k"], "v"), (M, (1, 2), ["k"], "v")],
    Usage(1, 10, 4),
    {"it has no key": 1},
)
GONE = built_entry("gone", ["x"] * 30, [(M, (1, 30), ["k"], "v"), (F, (2,), ["x"], "x")], Usage(9, 9, 9))
BARE = built_entry("bare", [], [])


def words(text: str) -> int:
    return len(text.split())


@pytest.fixture(scope="module", params=[1, 3])
def analysis(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> IndexAnalysis:
    root = tmp_path_factory.mktemp("root")
    add(root, "c", [FERRY, GONE, BARE], request.param)
    add(root, "c", [PORT], request.param, replaced=["gone"])
    return Collection.open(root, "c", legs=()).analysis(words)


def test_table_iii_averages_over_documents_that_live(analysis: IndexAnalysis) -> None:
    found = analysis.coverage
    assert (found.units, found.extracted, found.reached) == (7, 5, 7)
    assert found.average == pytest.approx((3 / 5 + 2 / 2) / 2)
    assert found.variance == pytest.approx(statistics.pvariance([60, 100]))
    assert found.fallback == pytest.approx(2 / 7)
    assert [(low.document_id, low.title, low.units, low.covered) for low in found.lowest] == [
        ("ferry", "About ferry", 5, 0.6)
    ]


def test_table_iv_counts_extracted_records_only(analysis: IndexAnalysis) -> None:
    found = analysis.pointers
    assert (found.single, found.consecutive, found.scattered, found.total) == (2, 2, 1, 5)
    assert analysis.kinds == {M: 5, F: 2}
    assert analysis.counts == Counts(3, 7, 7, 8, 8, analysis.counts.words)


def test_fig_4_counts_the_gaps_of_scattered_records(analysis: IndexAnalysis) -> None:
    assert (analysis.pointers.gaps.counts(), analysis.pointers.spans.counts()) == ({3: 1}, {3: 1})
    assert [stored.record.pointers for stored in analysis.scattered] == [(2, 5)]


def test_fig_5_leaves_fallback_records_out(analysis: IndexAnalysis) -> None:
    lengths = analysis.lengths
    assert lengths.keys.counts() == {1: 3, 2: 1, 3: 2}
    assert lengths.values.counts() == {1: 2, 2: 1, 3: 1, 4: 1}
    assert lengths.units.counts() == {1: 4, 2: 2, 3: 1}
    assert lengths.keys_per_record.counts() == {1: 4, 2: 1}


def test_what_the_living_cost(analysis: IndexAnalysis) -> None:
    assert analysis.usage == Usage(4, 110, 44)
    assert analysis.rejected == {"it has no key": 3, "its value is empty": 1}
    assert [stored.record.value for stored in analysis.repaired] == ["three words here", "four"]


def test_a_collection_without_documents_has_an_analysis(tmp_path: Path) -> None:
    add(tmp_path, "c", [GONE])
    add(tmp_path, "c", [], replaced=["gone"])
    found = Collection.open(tmp_path, "c", legs=()).analysis(words)
    assert (found.coverage.average, found.coverage.variance, found.coverage.fallback) == (1.0, 0.0, 0.0)
    assert (found.pointers.total, len(found.lengths.units), found.usage) == (0, 0, Usage())


# --------------------------------------------------------------------------- any collection

RECORDS = st.lists(st.tuples(st.sampled_from([M, F, C]), st.sets(st.integers(1, 9), min_size=1)), max_size=6)
DOCUMENTS = st.lists(st.tuples(RECORDS, st.booleans()), max_size=6)


def open_shard(folder: Path, entries: list[ShardEntry], dead: list[str]) -> Shard:
    writer, counts = PayloadWriter(folder), Counts()
    for entry in entries:
        built = entry.built
        own = Counts(1, len(built.units), len(built.records), len(built.records))
        writer.add(built, "hash", own)
        counts += own
    writer.close()
    return Shard(folder, ShardInfo(counts, 16, ()), dead)


def reference(documents: list[list[tuple[RecordKind, tuple[int, ...]]]]) -> dict[str, Any]:
    """The same by counting one record after the other."""
    extracted = [[p for kind, p in records if kind is not F] for records in documents]
    shares = [len({unit for p in records for unit in p}) / 9 for records in extracted]
    gaps = [b - a for records in extracted for p in records for a, b in pairwise(p) if b - a > 1]
    lists = [p for records in extracted for p in records]
    scattered = [p for p in lists if p[-1] - p[0] >= len(p)]
    return {
        "average": statistics.fmean(shares) if shares else 1.0,
        "variance": statistics.pvariance(100 * share for share in shares) if shares else 0.0,
        "single": sum(len(p) == 1 for p in lists),
        "consecutive": sum(len(p) > 1 and p[-1] - p[0] < len(p) for p in lists),
        "scattered": len(scattered),
        "gaps": Counter(gaps),
        "spans": Counter(p[-1] - p[0] for p in scattered),
        "widest": sorted((p[-1] - p[0] for p in scattered), reverse=True)[:EXAMPLES],
    }


@given(DOCUMENTS)
def test_any_collection_is_counted_right(
    documents: list[tuple[list[tuple[RecordKind, set[int]]], bool]],
) -> None:
    made = {
        f"d{n}": [(kind, tuple(sorted(p))) for kind, p in records] for n, (records, _) in enumerate(documents)
    }
    dead = [f"d{n}" for n, (_, is_dead) in enumerate(documents) if is_dead]
    entries = [
        built_entry(name, ["unit"] * 9, [(kind, p, ["key"], "value") for kind, p in records])
        for name, records in made.items()
    ]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("mrag.collection.payload_writing.BATCH_CHARACTERS", 60)
        half = len(entries) // 2
        shards = []
        for number, part in enumerate((entries[:half], entries[half:])):
            (place := Path(folder) / str(number)).mkdir()
            shards.append(open_shard(place, part, dead))
        found = analyse(Counts(), shards, words)
    coverage, pointers = found.coverage, found.pointers
    assert {
        "average": pytest.approx(coverage.average),
        "variance": pytest.approx(coverage.variance),
        "single": pointers.single,
        "consecutive": pointers.consecutive,
        "scattered": pointers.scattered,
        "gaps": pointers.gaps.counts(),
        "spans": pointers.spans.counts(),
        "widest": [stored.record.pointers[-1] - stored.record.pointers[0] for stored in found.scattered],
    } == reference([records for name, records in made.items() if name not in dead])


# --------------------------------------------------------------------------- histograms


@given(st.lists(st.integers(0, 300), min_size=1), st.lists(st.integers(0, 300)), st.integers(1, 40))
def test_a_histogram_knows_what_the_list_of_numbers_knows(one: list[int], more: list[int], most: int) -> None:
    histogram, both = Histogram(one), [*one, *more]
    histogram.add(more)
    assert (len(histogram), histogram.total, histogram.greatest) == (len(both), sum(both), max(both))
    assert histogram.mean == pytest.approx(statistics.fmean(both))
    assert histogram.deviation == pytest.approx(statistics.pstdev(both))
    assert histogram.quantile(0.5) == statistics.median_low(both)
    assert histogram.above(7) == sum(number > 7 for number in both)
    for limit in (None, 0, 17, 400):
        bins = list(histogram.bins(most, limit))
        assert len(bins) <= most
        assert [bin.seen for bin in bins] == [sum(bin.first <= n <= bin.last for n in both) for bin in bins]
        assert sum(bin.seen for bin in bins) == len(both)
        assert [bin.first for bin in bins[1:]] == [bin.last + 1 for bin in bins[:-1]]


def test_an_empty_histogram_is_all_zeros() -> None:
    empty = Histogram()
    assert (len(empty), empty.total, empty.mean, empty.deviation, empty.greatest) == (0, 0, 0.0, 0.0, 0)
    assert (empty.quantile(0.5), empty.above(0), empty.counts(), list(empty.bins(9))) == (
        0,
        0,
        {},
        [(0, 0, 0)],
    )

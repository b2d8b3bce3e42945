"""Filtered search against exact references: the best of what passes, with the scores of the whole."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrag.collection import Collection, ShardEntry, dense, filtering
from mrag.collection.filter_forms import parse_filter
from mrag.errors import CollectionError
from mrag.schema import Hit, Query
from mrag.settings import DenseSettings
from tests.collection_corpus import (
    STAMP_WITH_UNITS,
    add,
    ask,
    make_entry,
    vector_of,
    with_metadata,
    with_units,
)
from tests.exact_reference import assert_best, bm25

WORDS = ["river", "bridge", "castle", "harbour", "engine", "winter", "signal", "copper", "the", "of"]
QUERIES = ("the river at the harbour", "copper engine copper", "castle")
Passes = Callable[[Mapping[str, Any]], bool]

FILTERS: list[tuple[dict[str, Any], Passes]] = [
    ({"number": 7}, lambda m: m["number"] == 7),
    ({"number": {"gte": 10, "lt": 13}}, lambda m: 10 <= m["number"] < 13),
    ({"lang": ["en", "sv"], "number": {"gt": 12}}, lambda m: m["lang"] in ("en", "sv") and m["number"] > 12),
    ({"date": {"lte": "2024-02"}}, lambda m: m["date"] < "2024-03"),
    ({"id": {"prefix": "d01"}}, lambda m: 10 <= m["number"] <= 19),
    ({"title": "About d003"}, lambda m: m["number"] == 3),
    ({"nothing": 1}, lambda _: False),
    ({"number": {"gte": 0}}, lambda _: True),
]


def corpus(documents: int, seed: int = 0) -> list[ShardEntry]:
    """Documents of one to four records of one to three keys, with units, a number, a language and a date."""
    chance = random.Random(seed)

    def key() -> str:
        return " ".join(chance.choices(WORDS, k=chance.choice([1, 3, 5, 12])))

    def document(number: int) -> ShardEntry:
        keys = [[key() for _ in range(chance.randint(1, 3))] for _ in range(chance.randint(1, 4))]
        metadata = {
            "number": number,
            "lang": chance.choice(["en", "de", "sv"]),
            "date": f"2024-0{number % 9 + 1}-11",
        }
        return with_units(with_metadata(make_entry(f"d{number:03d}", keys), **metadata))

    return [document(number) for number in range(documents)]


def metadata_of(entry: ShardEntry) -> Mapping[str, Any]:
    return entry.built.document.metadata


# --------------------------------------------------------------------------- the reference


def reference(leg: str, live: Sequence[ShardEntry], query: Query) -> dict[str, float]:
    """The score of every record of the collection that the leg finds without a filter."""
    records = [(entry, record) for entry in live for record in entry.built.records]

    def near(text: str) -> float:
        return float(vector_of(text).astype(float) @ vector_of(query.text))

    if leg == "dense":
        weight = query.unit_weight if query.searched == "keys+units" else 0.0
        return {
            record.id: max(map(near, record.keys))
            + weight * near(entry.built.units[record.pointers[0] - 1].text)
            for entry, record in records
        }
    if query.searched == "keys":
        texts = [(record.id, key) for _, record in records for key in record.keys]
    else:
        texts = [
            (record.id, entry.units.texts[record.pointers[0] - 1]) for entry, record in records if entry.units
        ]
    best: dict[str, float] = {}
    for (record_id, _), score in zip(texts, bm25([text for _, text in texts], query.text), strict=True):
        if score > 0:
            best[record_id] = max(score, best.get(record_id, 0.0))
    return best


def assert_filtered(collection: Collection, live: Sequence[ShardEntry]) -> None:
    """Both legs of both retrievals under every filter: exactly the best of what passes."""
    for text, weight in product(QUERIES, (None, 0.7)):
        query = ask(text, unit_weight=weight)
        for leg in query.legs:
            scores = reference(leg, live, query)
            for tree, passes in FILTERS:
                passing = {entry.built.document.id for entry in live if passes(metadata_of(entry))}
                best = {record: score for record, score in scores.items() if record.split("#")[0] in passing}
                for depth in (1, 4, 1000):
                    asked = replace(query, depth=depth, legs=(leg,), filter=parse_filter(tree))
                    assert_best(collection.search(asked)[leg], best, depth)


@pytest.mark.parametrize("shards", [1, 3])
def test_a_filtered_search_is_exact(tmp_path: Path, shards: int) -> None:
    first, changed = corpus(30), corpus(6, seed=1)
    removed = {"d010", "d021", "d029"}
    for run in (first[:15], first[15:], changed):
        add(tmp_path, "c", run, shards, stamp=STAMP_WITH_UNITS)
    add(tmp_path, "c", [], shards, replaced=removed, stamp=STAMP_WITH_UNITS)
    live = {entry.built.document.id: entry for entry in [*first, *changed]}
    entries = [entry for name, entry in live.items() if name not in removed]
    assert_filtered(Collection.open(tmp_path, "c"), entries)


def test_a_gpu_that_ignores_selectors_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = corpus(25)
    add(tmp_path, "c", entries, shards=2, stamp=STAMP_WITH_UNITS)
    monkeypatch.setattr(dense, "OnGpu", lambda index: index)
    monkeypatch.setattr(dense, "GPU_MAX_HITS", 16)
    assert_filtered(Collection.open(tmp_path, "c", dense=DenseSettings(device="gpu")), entries)


def test_one_document_of_a_thousand_is_found_behind_all_others(tmp_path: Path) -> None:
    better = [with_metadata(make_entry(f"d{n:04d}", [["copper river"]]), rare=False) for n in range(1500)]
    rare = with_metadata(make_entry("rare", [["a copper signal in a long dull winter"]]), rare=True)
    add(tmp_path, "c", [*better, rare], shards=2)
    found = Collection.open(tmp_path, "c").search(ask("copper river", 5, None, parse_filter({"rare": True})))
    assert {leg: [hit.record_id for hit in hits] for leg, hits in found.items()} == {
        "dense": ["rare#1"],
        "sparse": ["rare#1"],
    }


def test_a_filter_changes_no_score(tmp_path: Path) -> None:
    add(tmp_path, "c", corpus(40), shards=3, stamp=STAMP_WITH_UNITS)
    collection = Collection.open(tmp_path, "c")
    for weight in (None, 0.7):
        for text in QUERIES:
            everything = collection.search(ask(text, 1000, weight))
            some = collection.search(ask(text, 1000, weight, parse_filter({"number": {"lt": 9}})))
            for leg, hits in some.items():
                scores: Mapping[str, Hit] = {hit.record_id: hit for hit in everything[leg]}
                assert hits
                assert [hit.score for hit in hits] == pytest.approx(
                    [scores[hit.record_id].score for hit in hits], rel=1e-6
                )


# --------------------------------------------------------------------------- any filter

FIELD = st.sampled_from(["a", "b", "id"])
SCALAR = st.sampled_from(["x", "xy", "2024-03", "2024-03-05", 0, 1, 1.5, True, False])
BOUND = st.sampled_from([0, 1, 1.5, "2024-03", "2024-03-05T10:00:00Z"])
TESTS = (
    SCALAR
    | st.lists(SCALAR, max_size=3)
    | st.dictionaries(st.sampled_from(["gt", "gte", "lt", "lte"]), BOUND, min_size=1, max_size=2)
    | st.fixed_dictionaries({"prefix": st.sampled_from(["x", "d1", ""])})
)
METADATA = st.dictionaries(
    st.sampled_from("ab"), SCALAR | st.none() | st.lists(SCALAR, max_size=2) | st.just({"x": 1})
)


@contextmanager
def collection_of(entries: Sequence[ShardEntry], shards: int) -> Iterator[Collection]:
    with TemporaryDirectory() as folder:
        add(Path(folder), "c", entries, shards)
        yield Collection.open(Path(folder), "c")


@settings(max_examples=10)
@given(
    st.lists(METADATA, min_size=1, max_size=8),
    st.lists(st.dictionaries(FIELD, TESTS, max_size=2), min_size=1, max_size=6),
    st.integers(1, 3),
)
def test_any_filter_finds_what_one_by_one_passes(
    metadata: list[Mapping[str, Any]], trees: list[Mapping[str, Any]], shards: int
) -> None:
    entries = [
        with_metadata(make_entry(f"d{n}", [["copper river"], [f"copper {n}"]]), **each)
        for n, each in enumerate(metadata)
    ]
    with collection_of(entries, shards) as collection:
        for tree in trees:
            filter_ = parse_filter(tree)
            passes = filtering.passing(filter_)
            wanted = {
                record.id
                for entry in entries
                if passes(collection.fetch([entry.built.records[0].id])[0].document)
                for record in entry.built.records
            }
            for hits in collection.search(ask("copper", 100, None, filter_)).values():
                assert {hit.record_id for hit in hits} == wanted


# --------------------------------------------------------------------------- reading metadata


def test_metadata_is_read_once_for_a_filter_and_never_at_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(tmp_path, "c", corpus(6), stamp=STAMP_WITH_UNITS)
    read = []
    true_document = filtering._document

    def counted(values: Mapping[str, Any]) -> Any:
        read.append(sorted(values))
        return true_document(values)

    monkeypatch.setattr(filtering, "_document", counted)
    collection = Collection.open(tmp_path, "c")
    collection.search(ask("copper"))
    assert read == []
    for _ in range(3):
        collection.search(ask("copper", 5, None, parse_filter({"number": 3})))
    assert read == [["metadata"]] * 6
    collection.search(ask("copper", 5, None, parse_filter({"id": "d001"})))
    assert read[6:] == [["id"]] * 6


def test_filters_that_python_takes_for_equal_are_kept_apart(tmp_path: Path) -> None:
    truth, number = (
        with_metadata(make_entry(name, [["copper"]]), flag=flag) for name, flag in (("t", True), ("n", 1))
    )
    add(tmp_path, "c", [truth, number])
    collection = Collection.open(tmp_path, "c")
    for flag, found in ((True, "t#1"), (1, "n#1"), (1.0, "n#1")):
        hits = collection.search(ask("copper", 5, None, parse_filter({"flag": flag})))
        assert [hit.record_id for hit in hits["sparse"]] == [found]


def test_damaged_metadata_is_an_error_of_the_collection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(tmp_path, "c", [make_entry("d", [["copper"]])])
    collection = Collection.open(tmp_path, "c")

    def damaged(_: Any) -> Any:
        raise ValueError("no JSON")

    monkeypatch.setattr(filtering.json, "loads", damaged)
    with pytest.raises(CollectionError, match="no JSON"):
        collection.search(ask("copper", 5, None, parse_filter({"year": 1900})))

"""Retrieval `keys+units` against exact references: sums of inner products, and BM25 of expanded units."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from mrag.collection import Collection, ShardEntry, dense
from mrag.errors import CollectionError, InputError
from mrag.schema import Hit, Leg, Query
from mrag.settings import DenseSettings
from tests.collection_corpus import (
    STAMP_WITH_UNITS,
    add,
    ask,
    make_entry,
    make_pointed,
    vector_of,
    with_units,
)
from tests.exact_reference import assert_alike, assert_best, bm25

WORDS = ["river", "bridge", "castle", "harbour", "engine", "winter", "signal", "copper", "the", "of"]
QUERIES = ("the river at the harbour", "copper engine copper", "winter lantern signal bridge", "castle")
WEIGHTS = (0.0, 0.5, 1.0, 3.0)


def corpus(documents: int, seed: int = 0) -> list[ShardEntry]:
    """Documents of one to five units, all pointed to by records of one to three keys and pointers.

    One text in five is the same as others.
    """
    chance = random.Random(seed)
    common = [" ".join(chance.choices(WORDS, k=4)) for _ in range(3)]

    def text() -> str:
        drawn = " ".join(chance.choices(WORDS, k=chance.choice([1, 3, 8, 40])))
        return chance.choice(common) if chance.random() < 0.2 else drawn

    def document(number: int) -> ShardEntry:
        units = range(1, chance.randint(1, 5) + 1)
        pointers = [(unit,) for unit in units]
        pointers += [
            tuple(sorted(chance.sample(units, chance.randint(1, min(3, len(units))))))
            for _ in range(chance.randint(0, 4))
        ]
        records = [([text() for _ in range(chance.randint(1, 3))], pointed) for pointed in pointers]
        return make_pointed(f"d{number:03d}", [text() for _ in units], records)

    return [document(number) for number in range(documents)]


def add_units(root: Path, entries: Sequence[ShardEntry], shards: int = 1, **more: object) -> None:
    add(root, "c", entries, shards, stamp=STAMP_WITH_UNITS, **more)  # type: ignore[arg-type]


# --------------------------------------------------------------------------- the references


def dense_reference(entries: Sequence[ShardEntry], query: Query) -> Mapping[str, float]:
    """The best key's inner product and the best unit's, times its weight."""

    def near(text: str) -> float:
        return float(vector_of(text).astype(float) @ vector_of(query.text))

    return {
        record.id: max(map(near, record.keys))
        + query.unit_weight * max(near(entry.built.units[number - 1].text) for number in record.pointers)
        for entry in entries
        for record in entry.built.records
    }


def sparse_reference(entries: Sequence[ShardEntry], query: Query) -> Mapping[str, float]:
    """The best of the units that a record points to, each with the text that stands in its entry."""
    texts = [text for entry in entries if entry.units for text in entry.units.texts]
    scores = iter(bm25(texts, query.text))
    found: dict[str, float] = {}
    for entry in entries:
        by_unit = {unit.number: next(scores) for unit in entry.built.units}
        for record in entry.built.records:
            found[record.id] = max(by_unit[number] for number in record.pointers)
    return {record: score for record, score in found.items() if score > 0}


REFERENCES = {"dense": dense_reference, "sparse": sparse_reference}


def assert_all_exact(collection: Collection, live: Sequence[ShardEntry]) -> None:
    records = {record.id: record for entry in live for record in entry.built.records}
    for text, weight in product(QUERIES, WEIGHTS):
        query = ask(text, unit_weight=weight)
        best = {leg: reference(live, query) for leg, reference in REFERENCES.items()}
        for depth in (1, 7, 1000):
            for leg, hits in collection.search(replace(query, depth=depth)).items():
                assert_best(hits, best[leg], depth)
                assert_keys(leg, hits, records, text)


def assert_keys(leg: Leg, hits: Sequence[Hit], records: Mapping[str, object], text: str) -> None:
    """The dense leg knows which key matched best, the sparse one does not."""
    for hit in hits:
        keys = records[hit.record_id].keys  # type: ignore[attr-defined]
        best = max(range(len(keys)), key=lambda key: vector_of(keys[key]) @ vector_of(text))
        if leg == "sparse":
            assert hit.key is None
        else:
            assert hit.key is not None
            assert keys[hit.key] == keys[best]


# --------------------------------------------------------------------------- exactness


@pytest.mark.parametrize("shards", [1, 3])
def test_a_search_is_exact_over_shards_segments_and_tombstones(tmp_path: Path, shards: int) -> None:
    first, changed = corpus(30), corpus(9, seed=1)
    removed = {"d015", "d016", "d029"}
    for run in (first[:11], first[11:], changed):
        add_units(tmp_path, run, shards)
    add_units(tmp_path, [], shards, replaced=removed)
    live = {entry.built.document.id: entry for entry in [*first, *changed]}
    entries = [entry for name, entry in live.items() if name not in removed]
    collection = Collection.open(tmp_path, "c")
    assert_all_exact(collection, entries)
    assert collection.manifest.counts.documents == 27
    assert collection.manifest.counts.units == sum(len(entry.built.units) for entry in entries)


def test_a_gpu_makes_no_difference_to_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = corpus(20)
    add_units(tmp_path, entries, shards=2)
    add_units(tmp_path, [], replaced=[f"d{number:03d}" for number in range(0, 20, 2)])
    monkeypatch.setattr(dense, "OnGpu", lambda index: index)
    monkeypatch.setattr(dense, "GPU_MAX_HITS", 16)
    assert_all_exact(Collection.open(tmp_path, "c", dense=DenseSettings(device="gpu")), entries[1::2])


def hits_of(root: Path, name: str, weight: float | None = 0.7) -> list[Mapping[Leg, tuple[Hit, ...]]]:
    collection = Collection.open(root, name)
    return [collection.search(ask(query, depth, weight)) for query in QUERIES for depth in (3, 20)]


def test_hits_do_not_depend_on_the_layout(tmp_path: Path) -> None:
    entries = corpus(40)
    add(tmp_path, "one", entries, stamp=STAMP_WITH_UNITS)
    add(tmp_path, "sharded", entries, shards=4, stamp=STAMP_WITH_UNITS)
    for start in range(0, 40, 10):
        part = entries[start : start + 10]
        add(tmp_path, "segments", reversed(part), shards=2, stamp=STAMP_WITH_UNITS)
    assert hits_of(tmp_path, "one") == hits_of(tmp_path, "sharded") == hits_of(tmp_path, "segments")


def test_what_is_dead_leaves_no_trace_in_scores_and_ranks(tmp_path: Path) -> None:
    kept = corpus(20)
    gone = [with_units(make_entry(f"x{n}", [["river river copper signal " * 9]])) for n in range(30)]
    add(tmp_path, "never", kept, stamp=STAMP_WITH_UNITS)
    add(tmp_path, "deleted", [*gone, *kept], shards=2, stamp=STAMP_WITH_UNITS)
    replaced = [entry.built.document.id for entry in gone]
    manifest = add(tmp_path, "deleted", [], replaced=replaced, stamp=STAMP_WITH_UNITS)
    assert manifest.counts == Collection.open(tmp_path, "never").manifest.counts
    for never, deleted in zip(hits_of(tmp_path, "never"), hits_of(tmp_path, "deleted"), strict=True):
        assert_alike(never, deleted)


def test_equal_records_are_ranked_by_id_however_many_point_to_one_unit(tmp_path: Path) -> None:
    many = make_pointed("d", ["a copper river"], [(["copper"], (1,)) for _ in range(300)])
    add_units(tmp_path, [many, *(with_units(make_entry(f"e{n}", [["winter"]])) for n in range(20))], shards=2)
    found = Collection.open(tmp_path, "c").search(ask("copper river", 5, 1.0))
    expected = sorted(record.id for record in many.built.records)[:5]
    assert [hit.record_id for hit in found["sparse"]] == expected


def test_without_weight_the_dense_leg_is_that_of_keys(tmp_path: Path) -> None:
    add_units(tmp_path, corpus(25), shards=2)
    without, keys = hits_of(tmp_path, "c", 0.0), hits_of(tmp_path, "c", None)
    assert [found["dense"] for found in without] == [found["dense"] for found in keys]


# --------------------------------------------------------------------------- what a collection has


def test_units_beside_them_change_nothing_for_keys_alone(tmp_path: Path) -> None:
    entries = corpus(25)
    add_units(tmp_path, entries, shards=3)
    add(tmp_path, "keys", [replace(entry, units=None) for entry in entries], shards=3)
    assert hits_of(tmp_path, "c", None) == hits_of(tmp_path, "keys", None)


def test_a_collection_of_keys_refuses_to_search_units(tmp_path: Path) -> None:
    add(tmp_path, "c", [make_entry("d", [["a copper river"]])])
    collection = Collection.open(tmp_path, "c")
    with pytest.raises(
        InputError, match=r"^Collection 'c' has nothing to search but its keys: .*\.$"
    ) as caught:
        collection.search(ask("copper", unit_weight=1.0))
    assert caught.value.field == "retrieval"


def test_an_empty_collection_finds_nothing_in_units(tmp_path: Path) -> None:
    add_units(tmp_path, [])
    found = Collection.open(tmp_path, "c").search(ask("copper", unit_weight=1.0))
    assert found == {"dense": (), "sparse": ()}


def test_a_segment_for_another_retrieval_is_not_published(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match=r"is written for retrieval keys\+units and .* for keys: index"):
        add(tmp_path, "c", [with_units(make_entry("d", [["river"]]))])
    with pytest.raises(CollectionError, match=r"is written for retrieval keys and .* for keys\+units"):
        add_units(tmp_path, [make_entry("d", [["river"]])])


def test_a_word_that_no_key_has_is_found_in_its_unit_only(tmp_path: Path) -> None:
    rare = make_pointed("d", ["Part XJ-4471 rusts.", "Winter."], [(["what rusts"], (1,)), (["when"], (2,))])
    add_units(tmp_path, [rare, *corpus(20)], shards=2)
    collection = Collection.open(tmp_path, "c")
    assert collection.search(ask("XJ-4471"))["sparse"] == ()
    assert [hit.record_id for hit in collection.search(ask("XJ-4471", 5, 1.0))["sparse"]] == ["d#1"]


def test_a_lone_surrogate_in_a_unit_is_stored_as_the_replacement_character(tmp_path: Path) -> None:
    add_units(tmp_path, [with_units(make_entry("d", [["copper \ud83d river"]]))])
    found = Collection.open(tmp_path, "c").search(ask("river \udc00", 5, 1.0))
    assert [hit.record_id for hit in found["sparse"]] == ["d#1"]

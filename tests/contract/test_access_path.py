"""The access path against exact references: all inner products, and BM25 written out."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from mrag.collection import Collection, ShardEntry, dense
from mrag.collection.manifest import Manifest
from mrag.collection.sparse import SparseIndex, SparsePart, SparseStatistics
from mrag.schema import Hit, Leg, RecordKind
from mrag.settings import DenseSettings, SparseSettings
from tests.collection_corpus import add, ask, make_entry
from tests.exact_reference import REFERENCES, assert_alike, assert_exact

WORDS = ["river", "bridge", "castle", "harbour", "engine", "winter", "signal", "copper", "the", "of"]
QUERIES = (
    "the river at the harbour",
    "copper engine copper",
    "winter lantern meadow signal bridge",
    "castle",
)


def corpus(documents: int, seed: int = 0, longest: int = 60) -> list[ShardEntry]:
    """Documents of one to four records of one to three keys; one key in five is the same as others."""
    chance = random.Random(seed)
    common = [" ".join(chance.choices(WORDS, k=4)) for _ in range(3)]

    def key() -> str:
        return (
            chance.choice(common)
            if chance.random() < 0.2
            else " ".join(chance.choices(WORDS, k=chance.choice([1, 3, 5, 8, 12, longest])))
        )

    return [
        make_entry(
            f"d{number:03d}",
            [[key() for _ in range(chance.randint(1, 3))] for _ in range(chance.randint(1, 4))],
        )
        for number in range(documents)
    ]


def assert_all_exact(collection: Collection, live: Sequence[ShardEntry]) -> None:
    for query in QUERIES:
        for depth in (1, 7, 1000):
            found = collection.search(ask(query, depth))
            for leg, hits in found.items():
                assert_exact(hits, REFERENCES[leg](live, query), depth)


# --------------------------------------------------------------------------- exactness


@pytest.mark.parametrize("shards", [1, 3])
def test_a_search_is_exact_over_shards_segments_and_replaced_documents(tmp_path: Path, shards: int) -> None:
    first = corpus(40)
    changed = corpus(12, seed=1)
    removed = {"d020", "d021", "d039"}
    for run in (first[:15], first[15:], changed):
        add(tmp_path, "c", run, shards)
    add(tmp_path, "c", [], shards, replaced=removed)
    live = {entry.built.document.id: entry for entry in [*first, *changed]}
    collection = Collection.open(tmp_path, "c")
    assert_all_exact(collection, [entry for name, entry in live.items() if name not in removed])
    assert collection.manifest.counts.documents == 37
    assert collection.analysis(len).kinds == {RecordKind.MARKER: collection.manifest.counts.records}


def test_a_gpu_that_ignores_selectors_and_gives_few_hits_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = corpus(30)
    add(tmp_path, "c", entries, shards=2)
    add(tmp_path, "c", [], replaced=[f"d{number:03d}" for number in range(0, 30, 2)])
    monkeypatch.setattr(dense, "OnGpu", lambda index: index)
    monkeypatch.setattr(dense, "GPU_MAX_HITS", 16)
    collection = Collection.open(tmp_path, "c", dense=DenseSettings(device="gpu"))
    assert_all_exact(collection, entries[1::2])


def hits_of(root: Path, name: str) -> list[Mapping[Leg, tuple[Hit, ...]]]:
    collection = Collection.open(root, name)
    return [collection.search(ask(query, depth)) for query in QUERIES for depth in (3, 20)]


def test_hits_do_not_depend_on_the_layout(tmp_path: Path) -> None:
    entries = corpus(60)
    add(tmp_path, "one", entries)
    add(tmp_path, "sharded", entries, shards=4)
    for start in range(0, 60, 15):
        add(tmp_path, "segments", reversed(entries[start : start + 15]), shards=2)
    assert hits_of(tmp_path, "one") == hits_of(tmp_path, "sharded") == hits_of(tmp_path, "segments")


def test_what_is_dead_leaves_no_trace_in_scores_and_ranks(tmp_path: Path) -> None:
    kept, gone = corpus(30), [make_entry(f"x{n}", [["river river copper signal " * 9]]) for n in range(40)]
    add(tmp_path, "never", kept)
    add(tmp_path, "deleted", [*gone, *kept], shards=2)
    manifest = add(tmp_path, "deleted", [], replaced=[entry.built.document.id for entry in gone])
    assert manifest.counts == Collection.open(tmp_path, "never").manifest.counts
    for never, deleted in zip(hits_of(tmp_path, "never"), hits_of(tmp_path, "deleted"), strict=True):
        assert_alike(never, deleted)


def test_equal_records_are_ranked_by_id_however_many_there_are(tmp_path: Path) -> None:
    entries = [make_entry(f"d{number:04d}", [["a copper river"]]) for number in range(700)]
    random.Random(0).shuffle(entries)
    add(tmp_path, "c", entries, shards=3)
    found = Collection.open(tmp_path, "c").search(ask("copper river", 5))
    for hits in found.values():
        assert [hit.record_id for hit in hits] == [f"d{number:04d}#1" for number in range(5)]


def test_a_record_with_many_good_keys_takes_one_place(tmp_path: Path) -> None:
    many = make_entry("many", [[f"copper river {number}" for number in range(500)]])
    add(tmp_path, "c", [many, *(make_entry(f"d{number}", [["river and winter"]]) for number in range(30))])
    found = Collection.open(tmp_path, "c").search(ask("copper river", 10))
    assert all(len(hits) == 10 for hits in found.values())
    assert found["sparse"][0].record_id == "many#1"


# --------------------------------------------------------------------------- statistics from elsewhere


def folders(manifest: Manifest, root: Path) -> list[tuple[Path, SparseStatistics]]:
    return [
        (folder, SparseStatistics(shard.counts.worded_keys, shard.counts.words))
        for _, shard, folder in manifest.shard_folders(root)
    ]


@pytest.mark.parametrize(("k1", "b"), [(0.9, 0.4), (0.0, 0.4), (1.2, 0.0), (2.0, 1.0)])
def test_shards_searched_apart_score_as_one_index_would(tmp_path: Path, k1: float, b: float) -> None:
    settings, entries = SparseSettings(k1=k1, b=b), corpus(40)
    entries.sort(key=lambda entry: sum(map(len, entry.key_texts[0])))
    [(whole, counts)] = folders(add(tmp_path, "one", entries), tmp_path)
    one = SparseIndex([SparsePart(whole)], counts, settings)
    parts = [folders(add(tmp_path, f"part{n}", entries[n * 10 : n * 10 + 10]), tmp_path)[0] for n in range(4)]
    apart = [SparseIndex([SparsePart(folder)], live, settings) for folder, live in parts]
    for query in QUERIES:
        words = one.words(query)
        collection = sum((index.statistics(words) for index in apart), SparseStatistics())
        assert collection == one.statistics(words)
        found = np.concatenate([index.search(words, collection, 1000)[0] for index in apart])
        expected = one.search(words, collection, 1000)[0]
        assert np.sort(found) == pytest.approx(np.sort(expected), rel=1e-6)


# --------------------------------------------------------------------------- any text


STRANGE = {
    "nul": "before\x00after copper",
    "bom": "\ufeffcopper bom",
    "rtl": "\u200fשלום עולם\u200e copper",
    "zero": "zero\u200bwidth\u200d copper",
    "emoji": "copper 😀👩‍👩‍👧 𝒳",
    "lines": "copper\r\n\u2028\u0085line",
    "combining": "cafe\u0301 copper",
    "syntax": 'foo: AND ( copper OR "x~2 ^ \\ [a TO b] *?',
}


def test_strange_text_is_found_and_comes_back_unchanged(tmp_path: Path) -> None:
    add(tmp_path, "c", [make_entry(name, [[text]]) for name, text in STRANGE.items()], shards=2)
    collection = Collection.open(tmp_path, "c")
    for name, text in STRANGE.items():
        found = collection.search(ask(text, 1))
        assert [hits[0].record_id for hits in found.values()] == [f"{name}#1", f"{name}#1"]
        [stored] = collection.fetch([f"{name}#1"])
        assert (stored.record.keys, stored.record.value) == ((text,), f"value of {text}")
        assert stored.units[0].text == text
    assert len(collection.search(ask("copper", 100))["sparse"]) == len(STRANGE)


def test_a_lone_surrogate_becomes_the_replacement_character(tmp_path: Path) -> None:
    add(tmp_path, "c", [make_entry("d", [["copper \ud83d river"]])])
    collection = Collection.open(tmp_path, "c")
    [stored] = collection.fetch(["d#1"])
    assert stored.record.keys == ("copper \ufffd river",)
    assert stored.units[0].text == collection.document("d").text == "copper \ufffd river"
    assert collection.search(ask("copper \udc00"))["sparse"][0].record_id == "d#1"


@pytest.mark.parametrize(
    ("query", "found"),
    [("", 0), ("   \n", 0), ("the of and", 0), ("nowhere", 0), ("\x00\ufeff", 0), ("foo: AND (copper", 1)],
)
def test_any_query_is_only_words(tmp_path: Path, query: str, found: int) -> None:
    add(tmp_path, "c", [make_entry("d", [["a copper river"]])])
    hits = Collection.open(tmp_path, "c").search(ask(query))
    assert (len(hits["sparse"]), len(hits["dense"])) == (found, 1)


def test_a_query_of_many_thousand_words_is_answered(tmp_path: Path) -> None:
    add(tmp_path, "c", [make_entry("d", [["a copper river"]])])
    query = "copper " + " ".join(f"word{number}" for number in range(20000))
    assert len(Collection.open(tmp_path, "c").search(ask(query))["sparse"]) == 1

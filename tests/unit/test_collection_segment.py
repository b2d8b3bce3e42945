"""Writing a shard: bad entries are refused by name, an attempt that fails leaves nothing."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrag.collection import (
    Collection,
    Counts,
    SearchedUnits,
    ShardEntry,
    content_hash,
    known_documents,
    publish,
    read_manifest,
    shard_of,
    write_shard,
)
from mrag.errors import CollectionError, DocumentError, SettingsError
from mrag.schema import Document, Heading
from mrag.settings import DenseSettings, SparseSettings
from tests.collection_corpus import STAMP, add, make_entry, make_pointed, vectors_of, with_units


def write(folder: Path, *entries: ShardEntry) -> Any:
    return write_shard(folder, entries, DenseSettings(), SparseSettings())


def test_a_shard_is_the_same_on_every_machine() -> None:
    names = ("handbook.md", "ü", "notes/2024.txt", "\udcff")
    assert [shard_of(name, 1024) for name in names] == [704, 823, 520, 674]
    assert {shard_of(f"d{number}", 3) for number in range(50)} == {0, 1, 2}
    assert shard_of("anything", 1) == 0


def test_a_content_hash_sees_everything_and_has_the_text_apart() -> None:
    document = Document("a", "text \ud800", "title", {"a": 1, "b": 2}, (Heading(0, 4, 1, "text"),))
    same = replace(document, id="b", metadata={"b": 2, "a": 1})
    assert content_hash(same) == content_hash(document)
    changes: list[dict[str, Any]] = [{"title": "x"}, {"metadata": {}}, {"headings": ()}, {"pages": (0,)}]
    others = [content_hash(replace(document, **change)) for change in changes]
    assert len({content_hash(document), *others}) == 5
    assert {other.partition("-")[0] for other in others} == {content_hash(document).partition("-")[0]}
    assert content_hash(replace(document, text="x")).partition("-")[0] != others[0].partition("-")[0]


def test_a_shard_tells_its_counts_and_files(tmp_path: Path) -> None:
    info = write(
        tmp_path / "s", make_entry("d", [["the river", "of the"], ["copper copper"]]), make_entry("e", [])
    )
    assert info.counts == Counts(documents=2, units=2, records=2, keys=3, worded_keys=2, words=3)
    assert info.dimension == 16
    names = {file.path for file in info.files if not file.path.startswith("lucene/")}
    assert names == {"documents.arrow", "units.arrow", "records.arrow", "keys.faiss"}
    assert {path.name for path in tmp_path.rglob("*.lock")} == set()


def test_a_shard_whose_units_are_searched_has_them_in_files_of_their_own(tmp_path: Path) -> None:
    entry = make_pointed("d", ["the river", "of the"], [(["copper copper"], (1,)), (["a"], (2,))])
    info = write(tmp_path / "s", entry, with_units(make_entry("e", [])))
    assert (info.counts.units, info.counts.worded_units, info.counts.unit_words) == (2, 1, 3)
    assert (info.counts.worded_keys, info.counts.words) == (1, 2)
    names = {file.path.partition("/")[0] for file in info.files if not file.path.endswith(".arrow")}
    assert names == {"keys.faiss", "units.faiss", "lucene", "lucene-units"}
    assert info.searched == "keys+units"
    assert write(tmp_path / "t", make_entry("d", [["river"]])).searched == "keys"


def test_an_empty_shard_has_no_legs(tmp_path: Path) -> None:
    info = write(tmp_path / "s")
    assert (info.counts, info.dimension) == (Counts(), 0)
    assert [file.path for file in info.files] == ["documents.arrow", "records.arrow", "units.arrow"]


def test_another_attempt_replaces_the_first(tmp_path: Path) -> None:
    write(tmp_path / "s", make_entry("d", [["river"]]), make_entry("e", [["copper"]]))
    assert write(tmp_path / "s", make_entry("d", [["river"]])).counts.documents == 1
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_an_attempt_that_ends_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    def entries() -> Iterator[ShardEntry]:
        yield make_entry("d", [["river"]])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_shard(tmp_path / "s", entries(), DenseSettings(), SparseSettings())
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_language_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    entries = [make_entry("d", [["river"]])]
    with pytest.raises(SettingsError, match=r"sparse\.language 'xx' has no analyzer: choose one of ar, .*en"):
        write_shard(tmp_path / "s", entries, DenseSettings(), SparseSettings(language="xx"))
    assert list(tmp_path.iterdir()) == []


# --------------------------------------------------------------------------- refusals


def with_vector(value: float) -> ShardEntry:
    entry = make_entry("d", [["a", "b"], ["c"]])
    vectors = entry.vectors.copy()
    vectors[1] = value
    return replace(entry, vectors=vectors)


def with_unit(**changes: Any) -> ShardEntry:
    entry = make_entry("d", [["a"], ["b"]])
    units = (entry.built.units[0], replace(entry.built.units[1], **changes))
    return replace(entry, built=replace(entry.built, units=units))


def with_record(**changes: Any) -> ShardEntry:
    entry = make_entry("d", [["a"], ["b"]])
    records = (entry.built.records[0], replace(entry.built.records[1], **changes))
    return replace(entry, built=replace(entry.built, records=records))


def with_document(**changes: Any) -> ShardEntry:
    entry = make_entry("d", [])
    return replace(entry, built=replace(entry.built, document=replace(entry.built.document, **changes)))


def with_searched(texts: int, vectors: Any) -> ShardEntry:
    return replace(make_entry("d", [["a"], ["b"]]), units=SearchedUnits(("text",) * texts, vectors))


REFUSED = {
    "the vector of key 1 of record 'd#1' is not finite": with_vector(np.nan),
    "key 1 of record 'd#1' is not finite or has no length": with_vector(0.0),
    "of record 'd#1' is not finite": with_vector(np.inf),
    "there are 1 vectors for 2 keys": replace(make_entry("d", [["a", "b"]]), vectors=vectors_of(["a"])),
    "not one text for each key": replace(
        make_entry("d", [["a"]]), key_texts=(("a", "b"),), vectors=vectors_of("ab")
    ),
    "source unit 2 is not what stands": with_unit(start=0, end=1),
    "source unit 2 is numbered 3 of 'd'": with_unit(number=3),
    "source unit 2 is numbered 2 of 'x'": with_unit(document_id="x"),
    "there are 1 texts and 2 vectors for 2 source units": with_searched(1, vectors_of("ab")),
    "there are 2 texts and 1 vectors for 2 source units": with_searched(2, vectors_of("a")),
    "its source units have another dimension": with_searched(2, np.ones((2, 3), np.float32)),
    "the vector of source unit 2 is not finite or has no length": with_searched(
        2, vectors_of("ab") * [[1], [0]]
    ),
    r"record 'd#1' points to \(\) of 1 source units": make_pointed("d", ["a"], [(["k"], ())]),
    "two records have the same id": with_record(id="d#1"),
    "record 'd#2' belongs to 'x'": with_record(document_id="x"),
    r"record 'd#2' points to \(1, 3\) of 2 source units": with_record(pointers=(1, 3)),
    r"record 'd#2' points to \(0,\) of 2 source units": with_record(pointers=(0,)),
    r"record 'd#2' points to \(2, 1\) of 2 source units": with_record(pointers=(2, 1)),
    "record 'd#2' has no key": with_record(keys=()),
    "a lone surrogate in its id": with_record(id="\ud800"),
    "its id has a lone surrogate": with_document(id="\udcff.txt"),
    "its metadata has a value that is not JSON": with_document(metadata={"when": object()}),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_can_not_be_stored_is_refused_by_name(tmp_path: Path, sentence: str) -> None:
    with pytest.raises(DocumentError, match=f"^Document .* can't be stored: .*{sentence}"):
        REFUSED[sentence].check()
    with pytest.raises(DocumentError, match=sentence):
        write(tmp_path / "s", make_entry("good", [["river"]]), REFUSED[sentence])
    assert list(tmp_path.iterdir()) == []


def test_a_document_that_comes_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="'d' can't be stored: it comes twice"):
        write(tmp_path / "s", make_entry("d", [["a"]]), make_entry("d", [["b"]]))


@pytest.mark.parametrize("first", [make_entry("d", [["a"]]), with_units(make_entry("d", [["a"]]))])
def test_units_are_searched_in_all_documents_or_in_none(tmp_path: Path, first: ShardEntry) -> None:
    other = make_entry("e", [["b"]])
    with pytest.raises(DocumentError, match="'e' can't be stored: its source units are searched and"):
        write(tmp_path / "s", first, other if first.units else with_units(other))


def test_vectors_of_another_dimension_are_refused(tmp_path: Path) -> None:
    other = replace(make_entry("e", [["b"]]), vectors=np.ones((1, 3), np.float32))
    with pytest.raises(
        DocumentError, match="'e' can't be stored: its vectors have 3 dimensions and the others 16"
    ):
        write(tmp_path / "s", make_entry("d", [["a"]]), other)


# --------------------------------------------------------------------------- a disk that refuses


def files_open_below(folder: Path) -> list[str]:
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    return [
        target
        for link in links
        if os.path.islink(link) and (target := os.readlink(link)).startswith(str(folder))
    ]


@pytest.mark.parametrize("limit", [0, 1 << 10, 3 << 10, 6 << 10, 40 << 10])
def test_a_full_disk_is_one_sentence_and_leaves_nothing_open(tmp_path: Path, limit: int) -> None:
    """No file may grow beyond `limit`: what the system says to that is as good as a full disk."""
    before = add(tmp_path, "c", [make_entry("a", [["river"]])])
    entries = [
        make_entry(f"d{number}", [[f"river {number} {place}" for place in range(9)]]) for number in range(99)
    ]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        with pytest.raises(CollectionError) as caught:
            add(tmp_path, "c", entries)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
    assert files_open_below(tmp_path) == []
    assert read_manifest(tmp_path, "c") == before
    assert list(tmp_path.rglob("*.tmp")) == []
    assert add(tmp_path, "c", entries).counts.documents == 100


def test_a_root_that_is_a_file_is_one_sentence(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.write_text("x")
    for ask in (read_manifest, known_documents, Collection.open):
        with pytest.raises(CollectionError, match=r"set collection\.root to a folder\.$"):
            ask(root, "c")  # type: ignore[operator]
    with pytest.raises(CollectionError, match=r"can't be written .* collection\.root is a folder"):
        add(root, "c", [make_entry("a", [["river"]])])
    with pytest.raises(CollectionError, match=r"can't be written"):
        publish(root, "c", STAMP, None)


def test_a_root_that_may_not_be_written_to_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "mkdir", refuse)
    for attempt in (lambda: write(tmp_path / "s"), lambda: publish(tmp_path, "c", STAMP, None)):
        with pytest.raises(CollectionError, match=r"Read-only file system.*: see that collection\.root"):
            attempt()

"""From one generation to the next: nothing is lost, nothing is there twice, nothing is half there."""

from __future__ import annotations

import multiprocessing
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mrag.collection import (
    Collection,
    Copy,
    SegmentInfo,
    check_stamp,
    content_hash,
    duplicates,
    known_documents,
    publish,
    read_manifest,
)
from mrag.errors import CollectionError
from tests.collection_corpus import STAMP, add, ask, make_entry, write_segment


def texts(root: Path) -> dict[str, str]:
    collection = Collection.open(root, "c", legs=())
    return {name: collection.document(name).text for name in known_documents(root, "c")}


def test_a_collection_that_is_not_there_knows_nothing(tmp_path: Path) -> None:
    assert known_documents(tmp_path, "c") == {}
    assert duplicates(tmp_path, "c") == {}
    check_stamp(tmp_path, "c", STAMP)
    assert list(tmp_path.iterdir()) == []


def test_an_append_adds_a_segment_and_keeps_the_others(tmp_path: Path) -> None:
    first = add(tmp_path, "c", [make_entry("a", [["river"]])])
    second = add(tmp_path, "c", [make_entry("b", [["bridge"], ["castle"]])], shards=3)
    assert (first.generation, second.generation) == (1, 2)
    assert second.segments[0] == first.segments[0]
    assert [len(segment.shards) for segment in second.segments] == [1, 3]
    assert (second.counts.documents, second.counts.records) == (2, 3)
    assert texts(tmp_path) == {"a": "river", "b": "bridge\n\ncastle"}


def test_a_changed_document_has_its_new_content_only(tmp_path: Path) -> None:
    add(tmp_path, "c", [make_entry("a", [["river"], ["lake"]]), make_entry("b", [["bridge"]])])
    for run, key in enumerate(("castle", "river"), start=2):
        changed = make_entry("a", [[key]])
        manifest = add(tmp_path, "c", [changed], replaced=["a"])
        assert manifest.tombstones == {"a": run}
        assert known_documents(tmp_path, "c")["a"] == content_hash(changed.built.document)
    assert texts(tmp_path) == {"a": "river", "b": "bridge"}
    assert (manifest.counts.documents, manifest.counts.records) == (2, 2)
    assert len(Collection.open(tmp_path, "c").records("a")) == 1


def test_a_document_that_lives_is_replaced_even_if_it_is_not_named(tmp_path: Path) -> None:
    for key in ("river", "castle"):
        manifest = add(tmp_path, "c", [make_entry("a", [[key]])])
    assert texts(tmp_path) == {"a": "castle"}
    assert manifest.counts.documents == 1


def test_a_document_can_go_and_come_back(tmp_path: Path) -> None:
    add(tmp_path, "c", [make_entry("a", [["river"]]), make_entry("b", [["bridge"]])])
    gone = add(tmp_path, "c", [], replaced=["a", "never there"])
    assert (gone.tombstones, gone.counts.documents) == ({"a": 2}, 1)
    assert texts(tmp_path) == {"b": "bridge"}
    add(tmp_path, "c", [make_entry("a", [["river"]])])
    assert texts(tmp_path) == {"a": "river", "b": "bridge"}


def test_nothing_new_makes_no_generation(tmp_path: Path) -> None:
    segment = write_segment(tmp_path, "c", [make_entry("a", [["river"]])])
    first = publish(tmp_path, "c", STAMP, segment, copies={"copy": Copy("a")})
    assert publish(tmp_path, "c", STAMP, None) == first
    assert publish(tmp_path, "c", STAMP, None, replaced=["unknown"], copies={"copy": Copy("a")}) == first
    assert add(tmp_path, "c", []) == first
    assert publish(tmp_path, "c", STAMP, segment, replaced=["a"]) == first
    assert read_manifest(tmp_path, "c") == first


def test_an_empty_collection_is_one(tmp_path: Path) -> None:
    assert publish(tmp_path, "c", STAMP, None).generation == 1
    collection = Collection.open(tmp_path, "c")
    assert collection.search(ask("river")) == {"dense": (), "sparse": ()}
    assert collection.manifest.counts.documents == 0


def test_duplicates_are_remembered_until_something_changes(tmp_path: Path) -> None:
    add(tmp_path, "c", [make_entry("a", [["river"]])], duplicates={"copy": "a", "other": "a"})
    add(tmp_path, "c", [make_entry("b", [["bridge"]])], duplicates={"third": "b"})
    assert duplicates(tmp_path, "c") == {"copy": "a", "other": "a", "third": "b"}
    add(tmp_path, "c", [make_entry("copy", [["castle"]])])
    assert duplicates(tmp_path, "c") == {"other": "a", "third": "b"}
    add(tmp_path, "c", [make_entry("a", [["lantern"]])], replaced=["a"])
    assert duplicates(tmp_path, "c") == {"third": "b"}
    publish(tmp_path, "c", STAMP, None, replaced=["b"], copies={"b": Copy("a")})
    assert duplicates(tmp_path, "c") == {"b": "a"}


def test_another_stamp_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    add(tmp_path, "c", [make_entry("a", [["river"]])])
    other = replace(STAMP, encoder="e5", key_text="titled")
    segment = write_segment(tmp_path, "c", [make_entry("b", [["bridge"]])])
    differences = "encoder: 'hash-16', not 'e5'; key_text: 'key', not 'titled'"
    sentence = rf"'c' is built with other settings \({differences}\): go back"
    for refused in (
        lambda: check_stamp(tmp_path, "c", other),
        lambda: publish(tmp_path, "c", other, segment),
    ):
        with pytest.raises(CollectionError, match=sentence):
            refused()
    assert known_documents(tmp_path, "c").keys() == {"a"}


def test_vectors_that_the_stamp_does_not_announce_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="vectors of 16 dimensions and collection 'c' of 384"):
        add(tmp_path, "c", [make_entry("a", [["river"]])], stamp=replace(STAMP, dimension=384))
    assert read_manifest(tmp_path, "c") is None


# --------------------------------------------------------------------------- crashes and company


def test_a_segment_that_was_not_published_is_invisible(tmp_path: Path) -> None:
    add(tmp_path, "c", [make_entry("a", [["river"]])])
    write_segment(tmp_path, "c", [make_entry("b", [["river"]])])
    assert known_documents(tmp_path, "c").keys() == {"a"}
    assert len(Collection.open(tmp_path, "c").search(ask("river"))["sparse"]) == 1


def test_a_manifest_that_is_not_in_force_is_invisible_and_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mrag.collection import files as module

    add(tmp_path, "c", [make_entry("a", [["river"]])])
    write = module.atomic_write

    def crash(path: Path, content: bytes) -> None:
        if path.name == "CURRENT":
            raise KeyboardInterrupt
        write(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(module, "atomic_write", crash)
        with pytest.raises(KeyboardInterrupt):
            add(tmp_path, "c", [make_entry("b", [["river"]])])
    assert (tmp_path / "c" / "manifests" / "000002.json").exists()
    assert known_documents(tmp_path, "c").keys() == {"a"}
    assert add(tmp_path, "c", [make_entry("d", [["river"]])]).generation == 2
    assert known_documents(tmp_path, "c").keys() == {"a", "d"}


def test_a_segment_whose_files_are_gone_is_not_published(tmp_path: Path) -> None:
    segment = write_segment(tmp_path, "c", [make_entry("a", [["river"]])])
    next((tmp_path / "c").rglob("keys.faiss")).unlink()
    with pytest.raises(CollectionError, match=r"keys\.faiss is missing"):
        publish(tmp_path, "c", STAMP, segment)


def publish_all(root: Path, segments: list[SegmentInfo], barrier: Any) -> None:
    barrier.wait()
    for segment in segments:
        publish(root, "c", STAMP, segment)


def test_two_publishers_at_once_both_land(tmp_path: Path) -> None:
    segments = [write_segment(tmp_path, "c", [make_entry(f"d{number}", [["river"]])]) for number in range(8)]
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    halves = (segments[::2], segments[1::2])
    processes = [context.Process(target=publish_all, args=(tmp_path, half, barrier)) for half in halves]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    manifest = read_manifest(tmp_path, "c")
    assert manifest is not None
    assert manifest.generation == len(manifest.segments) == 8
    assert known_documents(tmp_path, "c").keys() == {f"d{number}" for number in range(8)}


@pytest.mark.parametrize("make", [shutil.copytree, Path.rename])
def test_a_copied_or_renamed_collection_is_one_of_its_own(tmp_path: Path, make: Any) -> None:
    add(tmp_path, "c", [make_entry("a", [["river"]])])
    add(tmp_path, "c", [make_entry("b", [["bridge"]])])
    before = {path: path.read_bytes() for path in (tmp_path / "c").rglob("*") if path.is_file()}
    make(tmp_path / "c", tmp_path / "two")
    renamed = not (tmp_path / "c").exists()
    assert Collection.open(tmp_path, "two", generation=1, legs=()).name == "two"
    for again in (1, 2):
        manifest = add(tmp_path, "two", [make_entry("a", [["castle"] * again])])
        assert (manifest.name, manifest.generation) == ("two", 2 + again)
    assert set(known_documents(tmp_path, "two")) == {"a", "b"}
    assert Collection.open(tmp_path, "two").document("b").text == "bridge"
    after = {path: path.read_bytes() for path in (tmp_path / "c").rglob("*") if path.is_file()}
    assert after == ({} if renamed else before)


def test_a_copy_does_not_read_the_original(tmp_path: Path) -> None:
    add(tmp_path, "c", [make_entry("a", [["river"]])])
    shutil.copytree(tmp_path / "c", tmp_path / "two")
    for path in (tmp_path / "c" / "segments").rglob("*.arrow"):
        path.unlink()
    assert set(known_documents(tmp_path, "two")) == {"a"}
    with pytest.raises(CollectionError, match="missing"):
        Collection.open(tmp_path, "c")

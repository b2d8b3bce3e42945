"""The small files of a collection are alike in a folder and in an object store, which holds to conditions."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier, Thread

import pytest

from mrag.collection.files import Files, FolderFiles, ObjectFiles, files_of
from mrag.collection.object_store import ObjectStore, store_of


@pytest.fixture(params=["folder", "objects"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    if request.param == "folder":
        return files_of(tmp_path / "root", "c")
    return files_of(request.getfixturevalue("s3_root"), "c")


@pytest.fixture
def store(s3_root: Path) -> ObjectStore:
    store = store_of(s3_root)
    assert store
    return store


def test_a_root_says_where_files_are(tmp_path: Path, s3_root: Path) -> None:
    assert isinstance(files_of(tmp_path, "c"), FolderFiles)
    assert isinstance(files_of(s3_root, "c"), ObjectFiles)


def test_what_is_not_there_is_nothing(files: Files) -> None:
    assert files.read("CURRENT") is None
    assert files.names("manifests") == []
    files.remove(["CURRENT", "manifests/000001.json"])


@pytest.mark.parametrize("content", [b"", b"one\n", bytes(range(256)) * 300])
def test_what_is_written_is_read_until_it_is_written_over(files: Files, content: bytes) -> None:
    files.write("ledger/ab/cd/key.json", b"before")
    files.write("ledger/ab/cd/key.json", content)
    assert files.read("ledger/ab/cd/key.json") == content
    assert "key.json" in str(files.place("ledger/ab/cd/key.json"))


def test_names_are_those_of_one_folder_and_of_one_collection(files: Files, s3_root: Path) -> None:
    for path in ("a/1.json", "a/2.json", "ab/3.json", "CURRENT"):
        files.write(path, b"x")
    files_of(s3_root, "other").write("a/4.json", b"x")
    assert sorted(files.names("a")) == ["1.json", "2.json"]
    assert sorted(files.below("a")) == ["a/1.json", "a/2.json"]
    assert list(files.below("nowhere")) == []
    files.remove(["a/1.json", "a/9.json"])
    assert files.names("a") == ["2.json"]
    assert files.read("ab/3.json") == b"x"


# --------------------------------------------------------------------------- conditions


def test_an_object_is_made_once(store: ObjectStore) -> None:
    assert store.put_if("c/CURRENT", b"1", None)
    assert not store.put_if("c/CURRENT", b"2", None)
    assert store.get("c/CURRENT") == (b"1", (store.get("c/CURRENT") or (b"", ""))[1])


def test_an_object_is_replaced_by_who_has_seen_it(store: ObjectStore) -> None:
    assert not store.put_if("c/CURRENT", b"1", '"never"')
    assert store.put_if("c/CURRENT", b"1", None)
    first = store.get("c/CURRENT")
    assert first
    assert store.put_if("c/CURRENT", b"2", first[1])
    assert not store.put_if("c/CURRENT", b"3", first[1])
    second = store.get("c/CURRENT")
    assert second
    assert (second[0], second[1] != first[1]) == (b"2", True)


def test_of_many_who_replace_at_once_one_does(store: ObjectStore) -> None:
    store.put("c/CURRENT", b"0")
    seen = store.get("c/CURRENT")
    assert seen
    barrier, done = Barrier(8), list[int]()

    def replace(number: int) -> None:
        barrier.wait()
        if store.put_if("c/CURRENT", b"%d" % number, seen[1]):
            done.append(number)

    threads = [Thread(target=replace, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 1
    assert (store.get("c/CURRENT") or (b"",))[0] == b"%d" % done[0]


def test_folders_and_sizes_are_those_below_the_address(store: ObjectStore) -> None:
    for key in ("c/CURRENT", "c/segments/a/shard-000/x", "d/CURRENT"):
        store.put(key, key.encode())
    assert sorted(store.folders()) == ["c", "d"]
    assert store.folders("c/segments") == ["a"]
    assert store.sizes("c") == {"c/CURRENT": 9, "c/segments/a/shard-000/x": 24}
    store.remove(store.sizes("c"))
    assert store.folders() == ["d"]

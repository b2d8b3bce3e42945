"""What a machine keeps of an object store: whole, no more than it may, and fetched again when it is gone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mrag.collection import Collection, Manifest, known_documents, restore
from mrag.collection.mirror import fetch, local_root
from mrag.collection.object_store import ObjectStore, store_of
from mrag.errors import CollectionError, StoreError
from mrag.indexing.compact import compact
from mrag.query.opened import OpenCollections
from mrag.settings import parse_settings
from tests.collection_corpus import add, ask, make_entry
from tests.damage import flip, truncate
from tests.s3_server import new_root


@pytest.fixture
def manifest(s3_root: Path) -> Manifest:
    return add(s3_root, "c", [make_entry(f"d{n}", [[f"river {n}"]]) for n in range(4)], shards=2)


def store_at(root: Path) -> ObjectStore:
    store = store_of(root)
    assert store
    return store


def cached(root: Path) -> list[Path]:
    files = (path for path in local_root(root).glob("*/segments/*/shard-*/**/*") if path.is_file())
    return sorted(path for path in files if path.stat().st_size)


def found(root: Path) -> int:
    collection = Collection.open(root, "c")
    try:
        return len(collection.search(ask("river"))["sparse"])
    finally:
        collection.close()


# --------------------------------------------------------------------------- damage


@pytest.mark.parametrize("damage", [flip, truncate, os.remove])
def test_what_is_damaged_here_is_fetched_again(manifest: Manifest, s3_root: Path, damage: object) -> None:
    files = {path: path.read_bytes() for path in cached(s3_root)}
    assert len(files) > 8
    for path in files:
        damage(path)  # type: ignore[operator]
    assert found(s3_root) == 4
    assert {path: path.read_bytes() for path in files} == files


@pytest.mark.parametrize("kind", ["another", "shorter", "gone"])
@pytest.mark.parametrize("name", ["documents.arrow", "keys.faiss"])
def test_what_is_damaged_there_is_refused_and_named(
    manifest: Manifest,
    s3_root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    kind: str,
) -> None:
    serving = OpenCollections(s3_root, "hash-16")
    serving("c")
    store = store_at(s3_root)
    key = next(key for key in store.sizes("c/segments") if key.endswith(f"shard-001/{name}"))
    data, _ = store.get(key) or (b"", "")
    changed = {"another": data[:-1] + b"?", "shorter": data[:-9]}
    store.put(key, changed[kind]) if kind in changed else store.remove([key])
    monkeypatch.setenv("MRAG_HOME", str(tmp_path / "another"))
    with pytest.raises(StoreError, match=f"shard-001/{name}"):
        Collection.open(s3_root, "c")
    folder = local_root(s3_root) / "c" / "segments" / manifest.segments[0].id / "shard-001"
    assert not (folder / name).exists()
    assert len(serving("c").search(ask("river"))["sparse"]) == 4


def test_a_segment_that_did_not_arrive_is_not_published(manifest: Manifest, s3_root: Path) -> None:
    store = store_at(s3_root)
    store.remove(key for key in store.sizes("c/segments") if key.endswith("keys.faiss"))
    add(s3_root, "c", [make_entry("e", [["river"]])])
    with pytest.raises(CollectionError, match=r"keys\.faiss is missing: restore it"):
        restore(s3_root, "c", 1)


def test_a_full_disk_is_a_sentence(
    manifest: Manifest, s3_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MRAG_HOME", str(tmp_path / "a file"))
    (tmp_path / "a file").write_text("x")
    with pytest.raises(CollectionError, match=r"can't be written \(Not a directory\)"):
        known_documents(s3_root, "c")


# --------------------------------------------------------------------------- room


def test_the_longest_unused_goes_first_and_comes_again(s3_host: str, s3_root: Path) -> None:
    size = _size(s3_root)
    root = new_root(s3_host, f"&cache_gib={2.5 * size / 2**30:.12f}")
    for number, name in enumerate(("one", "two", "three")):
        add(root, name, [make_entry("a", [["river"]])])
        os.utime(_pin(root, name), (number, number))
    assert _kept(root) == {"two", "three"}
    for name, kept in (("one", {"one", "three"}), ("three", {"one", "three"}), ("two", {"two", "three"})):
        collection = Collection.open(root, name)
        assert len(collection.search(ask("river"))["sparse"]) == 1
        collection.close()
        assert _kept(root) == kept


def test_what_is_read_is_not_dropped(s3_host: str, s3_root: Path) -> None:
    root = new_root(s3_host, "&cache_gib=0")
    for name in ("one", "two"):
        add(root, name, [make_entry("a", [["river"]])])
    reading = Collection.open(root, "one")
    _empty(root, "two")
    other = Collection.open(root, "two")
    assert _kept(root) == {"one", "two"}
    reading.close()
    _empty(root, "two")
    Collection.open(root, "two").close()
    assert _kept(root) == {"two"}
    assert len(other.search(ask("river"))["dense"]) == 1


def test_nothing_is_fetched_twice_or_for_a_folder(
    manifest: Manifest, s3_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(s3_root) == 4

    def refused(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(ObjectStore, "download", refused)
    assert found(s3_root) == 4
    assert fetch(tmp_path, tmp_path, manifest.segments[0].shards[0].files) is None


def test_an_older_generation_leaves_this_machine_when_it_is_read_no_more(
    manifest: Manifest, s3_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MRAG_HOME", str(tmp_path / "serving"))
    serving = OpenCollections(s3_root, "hash-16")
    serving("c")
    old = manifest.segments[0].id
    with monkeypatch.context() as other:
        other.setenv("MRAG_HOME", str(tmp_path / "writing"))
        compact(parse_settings({"collection": {"root": s3_root, "name": "c"}}))
    assert any(old in str(path) for path in cached(s3_root))
    assert serving("c").manifest.generation == 2
    assert found(s3_root) == 4
    assert not any(old in str(path) for path in cached(s3_root))


def _size(root: Path) -> int:
    """Bytes of one collection of one document."""
    add(root, "size", [make_entry("a", [["river"]])])
    return sum(path.stat().st_size for path in cached(root))


def _kept(root: Path) -> set[str]:
    """Names of the collections of which there is something here."""
    return {path.relative_to(local_root(root)).parts[0] for path in cached(root)}


def _pin(root: Path, name: str) -> Path:
    (pin,) = (local_root(root) / name / "segments").glob("*/.shard-000.pin")
    return pin


def _empty(root: Path, name: str) -> None:
    for path in cached(root):
        if path.relative_to(local_root(root)).parts[0] == name:
            path.unlink()

"""Collections in an object store: the same as in a folder, from any machine."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mrag import cli
from mrag.collection import (
    Collection,
    describe,
    existing_manifest,
    known_documents,
    list_collections,
    read_manifest,
    restore,
)
from mrag.collection.mirror import local_root
from mrag.collection.object_store import store_of
from mrag.collection.segments import segment_names
from mrag.errors import NotFoundError
from mrag.indexing.compact import compact
from mrag.indexing.delete import delete_documents
from mrag.indexing.ledger import Ledger
from mrag.indexing.run import index_folder
from mrag.models.language_model import Completion
from mrag.query.opened import OpenCollections
from mrag.schema import Usage
from mrag.settings import Settings, parse_settings
from tests.collection_corpus import add, ask, make_entry
from tests.s3_server import new_root
from tests.synced_folder import ALMA, PIER, TOVE, content, write


def at(root: Path, shards: int = 2) -> Settings:
    return parse_settings({"method": "sane", "collection": {"root": root, "shards": shards}})


def another_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MRAG_HOME", str(tmp_path / "another"))


def objects(root: Path) -> dict[str, bytes]:
    store = store_of(root)
    assert store
    return {key: (store.get(key) or (b"",))[0] for key in store.sizes("")}


def told(root: Path) -> dict[str, Any]:
    """What an operator sees, without the names of segments and what depends on when it was written."""
    found = asdict(describe(root, "default"))
    return {**found, "segments": len(found["segments"]), "bytes": 0}


def test_a_life_in_a_store_is_a_life_in_a_folder(
    place: Path, s3_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = (place / "root", s3_root)

    def both(work: Any) -> None:
        one, other = (work(root) for root in roots)
        assert one == other
        assert content(place, roots[0]) == content(place, roots[1])
        assert told(roots[0]) == told(roots[1])

    def index(root: Path) -> Any:
        report = asyncio.run(index_folder(at(root), place / "in", sync=True))
        return dict(report.counts), report.generation, report.removed

    write(place, {"a": "CANARY one.", "b": TOVE, "copy": TOVE})
    both(index)
    write(place, {"a": ALMA, "b": TOVE, "copy": TOVE, "d": PIER})
    both(index)
    both(index)
    both(lambda root: delete_documents(at(root), ["d.txt", "never.txt"]))
    another_machine(monkeypatch, tmp_path)
    both(lambda root: restore(root, "default", 2).counts)
    assert any(b"CANARY" in data for data in objects(s3_root).values())
    both(lambda root: compact(at(root, shards=3)).documents)
    assert not [key for key, data in objects(s3_root).items() if b"CANARY" in data]
    cached = local_root(s3_root) / "default" / "segments"
    assert not [path for path in cached.rglob("*") if path.is_file() and b"CANARY" in path.read_bytes()]
    assert segment_names(s3_root, "default") == {existing_manifest(s3_root, "default").segments[0].id}
    both(index)


def test_what_one_machine_wrote_another_reads(
    s3_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [make_entry(f"d{n}", [[f"ferry key {n}"]]) for n in range(20)]
    for root in (s3_root, tmp_path / "root"):
        add(root, "c", entries[:12], shards=3)
        add(root, "c", entries[12:], shards=3, replaced=["d3"])
    another_machine(monkeypatch, tmp_path)
    assert list_collections(s3_root) == ("c",)
    assert known_documents(s3_root, "c") == known_documents(tmp_path / "root", "c")
    there, here = Collection.open(s3_root, "c"), Collection.open(tmp_path / "root", "c")
    assert there.search(ask("ferry key 7", 30)) == here.search(ask("ferry key 7", 30))
    assert there.document("d15") == here.document("d15")
    assert Collection.open(s3_root, "c", generation=1, verify="full").document("d3").id == "d3"


def test_only_what_is_needed_is_fetched(
    s3_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(s3_root, "c", [make_entry("a", [["river"]])])
    another_machine(monkeypatch, tmp_path)
    assert known_documents(s3_root, "c").keys() == {"a"}
    add(s3_root, "c", [make_entry("b", [["river"]])])
    first = existing_manifest(s3_root, "c").segments[0].id
    fetched = local_root(s3_root) / "c" / "segments" / first / "shard-000"
    assert [path.name for path in fetched.iterdir()] == ["documents.arrow"]
    assert Collection.open(s3_root, "c", legs=()).records("a")
    assert {path.suffix for path in fetched.iterdir()} == {".arrow"}
    assert Collection.open(s3_root, "c").search(ask("river"))["dense"]


def test_a_collection_that_nobody_wrote_is_not_there(s3_root: Path) -> None:
    assert list_collections(s3_root) == ()
    assert read_manifest(s3_root, "c") is None
    with pytest.raises(NotFoundError, match=r"no collection 'c' in s3://b-\w+/pre/fix: index one first"):
        Collection.open(s3_root, "c")


def test_a_service_sees_what_is_published_elsewhere(
    s3_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(s3_root, "c", [make_entry("a", [["river"]])])
    serving = OpenCollections(s3_root, "hash-16")
    assert serving("c").manifest.generation == 1
    with monkeypatch.context() as other:
        another_machine(other, tmp_path)
        add(s3_root, "c", [make_entry("b", [["river"]])])
    opened = serving("c")
    assert opened.manifest.generation == 2
    assert {hit.record_id for hit in opened.search(ask("river"))["sparse"]} == {"a#1", "b#1"}
    assert serving("c") is opened


def test_replies_are_had_from_any_machine(
    s3_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = Completion("five", Usage(1, 7, 3), "stop")
    Ledger(s3_root, "c").entries("a").put("key", reply)
    another_machine(monkeypatch, tmp_path)
    entries = Ledger(s3_root, "c").entries("a")
    assert (entries.get("key"), entries.get("other")) == (reply, None)
    entries.put("new", reply)
    entries.keep_only(["new"])
    assert [entries.get(key) for key in ("key", "new")] == [None, reply]
    Ledger(s3_root, "c").forget(["a", "b"])
    assert objects(s3_root) == {}


def test_a_copy_of_a_bucket_is_a_folder_and_the_other_way_round(
    s3_root: Path, tmp_path: Path, s3_host: str
) -> None:
    add(s3_root, "c", [make_entry("a", [["river"]])])
    for key, data in objects(s3_root).items():
        path = tmp_path / "copy" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    add(tmp_path / "copy", "c", [make_entry("b", [["river"]])])
    again = new_root(s3_host)
    store = store_of(again)
    assert store
    for path in (tmp_path / "copy").rglob("*"):
        if path.is_file():
            store.put(path.relative_to(tmp_path / "copy").as_posix(), path)
    assert Collection.open(again, "c", verify="full").manifest.counts.documents == 2
    assert add(again, "c", [make_entry("d", [["river"]])]).generation == 3


def test_commands_take_an_address_where_they_take_a_folder(place: Path, s3_root: Path) -> None:
    write(place, {"a": ALMA, "b": TOVE})
    where = ["--set", f"collection.root={s3_root}"]

    def run(*command: str) -> str:
        done = CliRunner().invoke(cli.app, [*command, *where])
        assert done.exit_code == 0, done.output
        return done.output

    assert "indexed" in run("index", str(place / "in"), "--set", "method=sane", "--json")
    assert '"generation": 2' in run("delete", "a.txt", "--json")
    assert '"generation": 3' in run("compact", "--json")
    assert "2 documents" not in run("rollback", "3")
    with pytest.raises(NotFoundError, match="no generation 1"):
        restore(s3_root, "default", 1)

"""Compaction: the same answers from what lives, and nothing else on disk; and the way back before it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mrag import cli
from mrag.collection import Collection, existing_manifest, known_documents, restore
from mrag.collection import collection as collection_module
from mrag.collection.manifest import Manifest, ShardInfo
from mrag.errors import CollectionError, NotFoundError
from mrag.indexing import compact as compact_module
from mrag.indexing.compact import compact, write_compacted
from mrag.indexing.delete import delete_documents
from mrag.indexing.run import index_folder
from mrag.query.opened import OpenCollections
from mrag.schema import Query, Status
from mrag.settings import Settings
from tests.synced_folder import ALMA, ENCODER, PIER, TOVE, content, settings, shown, sync, write

# --------------------------------------------------------------------------- compaction


def bytes_with(place: Path, text: str) -> list[Path]:
    return [
        path for path in (place / "root").rglob("*") if path.is_file() and text.encode() in path.read_bytes()
    ]


@pytest.mark.parametrize("retrieval", ["keys", "keys+units"])
@pytest.mark.parametrize("shards", [1, 2, 3])
def test_a_compacted_collection_answers_as_before_and_holds_nothing_else(
    place: Path, shards: int, retrieval: str
) -> None:
    method = {"builder": {"name": "units"}, "retrieval": {"name": retrieval}, "reader": {"name": "sane"}}
    tree = {"method": method}
    write(place, {"a": "CANARY one.", "b": TOVE, "c": "CANARY two.", "copy": TOVE})
    sync(place, **tree)
    write(place, {"a": ALMA, "b": TOVE, "d": PIER, "copy": TOVE})
    sync(place, **tree)
    assert bytes_with(place, "CANARY")
    before = content(place)
    collection = {"root": place / "root", "shards": shards}
    done = compact(settings(place, **{**tree, "collection": collection}))
    assert (done.documents, done.segments_before, done.generation) == (3, 2, 3)
    assert done.bytes_after < done.bytes_before
    assert content(place) == before
    assert not bytes_with(place, "CANARY")
    assert len(list((place / "root" / "default" / "segments").iterdir())) == 1
    report = sync(place, **tree)
    assert (report.counts[Status.UNCHANGED], report.counts[Status.DUPLICATE], report.generation) == (3, 1, 3)


def test_nobody_else_writes_while_it_is_compacted(library: Path) -> None:
    def write_slowly(given: Settings, before: Manifest, segment: str) -> list[ShardInfo]:
        for other in (
            lambda: delete_documents(given, ["b"]),
            lambda: restore(library / "root", "default", 1),
            lambda: compact(given),
            lambda: asyncio.run(index_folder(given, library / "in")),
        ):
            with pytest.raises(CollectionError, match="is being written by"):
                other()
        return [write_compacted(given, before, segment, shard) for shard in range(2)]

    before = content(library)
    assert compact(settings(library), write_slowly).generation == 2
    assert content(library) == before


def test_a_compaction_that_fails_leaves_everything(library: Path) -> None:
    def fail(*_: Any) -> list[ShardInfo]:
        raise CollectionError("The disk is full.")

    before, files = content(library), sorted((library / "root" / "default" / "segments").rglob("*"))
    with pytest.raises(CollectionError):
        compact(settings(library), fail)
    assert content(library) == before
    assert sorted((library / "root" / "default" / "segments").rglob("*")) == files


def test_nothing_is_left_of_a_collection_whose_documents_are_all_deleted(library: Path) -> None:
    root = ["--set", f"collection.root={library / 'root'}"]
    done = CliRunner().invoke(cli.app, ["delete", "a", "b", "c", "copy", "--purge", "--json", *root])
    assert (done.exit_code, json.loads(done.stdout)["generation"]) == (0, 3)
    assert not bytes_with(library, "ferry")
    assert not list((library / "root" / "default" / "segments").iterdir())
    assert sync(library).counts[Status.INDEXED] == 3


def test_an_open_generation_can_be_read_after_it_was_compacted_away(library: Path) -> None:
    opened = Collection.open(library / "root", "default")
    before = content(library)
    assert (
        CliRunner().invoke(cli.app, ["compact", "--set", f"collection.root={library / 'root'}"]).exit_code
        == 0
    )
    query = Query("ferry harbour", depth=9, vector=ENCODER.encode(["ferry harbour"], "query")[0])
    assert shown(opened.search(query)) == before["ferry harbour"]
    assert opened.document("a").text == ALMA
    opened.close()


def test_there_must_be_something_to_compact(library: Path) -> None:
    with pytest.raises(NotFoundError):
        compact(settings(library, collection={"root": library / "none"}))


# --------------------------------------------------------------------------- by policy


def policy(place: Path, **limits: Any) -> dict[str, Any]:
    return {"collection": {"root": place / "root", "shards": 2, "compaction": limits}}


def test_a_run_compacts_where_there_are_too_many_segments(place: Path) -> None:
    tree = policy(place, segments=2)
    texts = {"a": ALMA}
    for number in range(2):
        write(place, texts | {f"n{number}": f"Pier {number}."})
        sync(place, **tree)
    assert len(existing_manifest(place / "root", "default").segments) == 2
    before = sync(place, **tree)
    assert (before.compaction, before.generation) == ("", 2)
    write(place, {"a": ALMA, "b": TOVE})
    report = sync(place, **tree)
    assert report.compaction.startswith("for 3 segments: ")
    assert ("compacted", report.compaction) in report.table()
    assert report.as_dict()["compaction"] == report.compaction
    manifest = existing_manifest(place / "root", "default")
    assert (report.generation, manifest.generation, len(manifest.segments)) == (4, 4, 1)
    assert known_documents(place / "root", "default").keys() == {"a.txt", "b.txt"}
    assert sync(place, **tree).generation == 4


def test_a_run_compacts_where_too_much_is_dead(library: Path) -> None:
    tree = policy(library, dead_share=0.5)
    kept = delete_documents(settings(library, **tree), ["a", "copy"])
    assert (kept.compaction, kept.generation) == ("", 2)
    done = delete_documents(settings(library, **tree), ["b"])
    assert done.compaction.startswith("for 75% dead records: ")
    assert ("compacted", done.compaction) in done.table()
    assert done.generation == existing_manifest(library / "root", "default").generation == 4
    assert not bytes_with(library, "ferry")


def test_a_compaction_that_fails_at_the_end_of_a_run_costs_nothing_of_it(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise CollectionError("The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(compact_module, "publish_compacted", refuse)
        done = delete_documents(settings(library, **policy(library, dead_share=0.2)), ["a", "b", "copy"])
    assert done.compaction == "failed, for 75% dead records: The disk is full."
    assert (done.deleted, done.generation, done.exit_code) == (("a", "b", "copy"), 2, 0)
    assert known_documents(library / "root", "default").keys() == {"c"}


def test_nothing_compacts_by_itself_unless_it_is_told_to(library: Path) -> None:
    assert delete_documents(settings(library), ["a", "b", "copy"]).generation == 2
    assert bytes_with(library, "ferry")


# --------------------------------------------------------------------------- going back


def test_what_an_earlier_generation_held_comes_back(library: Path) -> None:
    root, place = library / "root", f"collection.root={library / 'root'}"
    before = content(library)
    delete_documents(settings(library), ["a"])
    (library / "in" / "new.txt").write_text("A new pier.")
    asyncio.run(index_folder(settings(library), library / "in"))
    done = CliRunner().invoke(cli.app, ["rollback", "1", "--set", place])
    assert (done.exit_code, done.stdout) == (0, "generation 4: 3 documents, 4 records\n")
    assert content(library) == before
    assert restore(root, "default", 3).generation == 5
    assert known_documents(root, "default").keys() == {"b", "c", "copy", "new.txt"}
    assert restore(root, "default", 5).generation == 5
    compact(settings(library))
    for gone in (1, 5, 9):
        with pytest.raises(NotFoundError):
            restore(root, "default", gone)
    with pytest.raises(NotFoundError):
        restore(library, "none", 1)


# --------------------------------------------------------------------------- readers


def test_who_opens_while_it_is_compacted_gets_the_new_generation(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify = collection_module.verify_files

    def slowly(folder: Path, *rest: Any, **options: Any) -> None:
        monkeypatch.setattr(collection_module, "verify_files", verify)
        compact(settings(library))
        verify(folder, *rest, **options)

    monkeypatch.setattr(collection_module, "verify_files", slowly)
    opened = Collection.open(library / "root", "default", legs=())
    assert opened.manifest.generation == 2
    assert opened.document("a").text == ALMA
    opened.close()


def test_a_question_waits_for_a_generation_without_what_was_deleted(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collections = OpenCollections(library / "root", "hash")
    assert collections("default").manifest.generation == 1
    (library / "in" / "new.txt").write_text("A new pier.")
    asyncio.run(index_folder(settings(library), library / "in"))
    with monkeypatch.context() as broken:
        broken.setattr(Collection, "open", failing)
        assert collections("default").manifest.generation == 1  # What was only added can wait.
        delete_documents(settings(library), ["a"])
        with pytest.raises(CollectionError, match="no room"):
            collections("default")
        compact(settings(library))
        with pytest.raises(CollectionError, match="no room"):
            collections("default")
    assert collections("default").manifest.generation == 4


def failing(*_: Any, **__: Any) -> Collection:
    raise CollectionError("There is no room to open it.")

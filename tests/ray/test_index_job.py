"""The indexing job on a Ray of two CPUs, with scripted models."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from jobs.compact import write_shards
from jobs.index import documents, index, survey
from mrag.collection import Collection
from mrag.collection.mirror import local_root
from mrag.errors import CollectionError, InputError, SettingsError
from mrag.indexing.compact import compact
from mrag.indexing.report import Report
from mrag.indexing.run import index_folder
from mrag.schema import Status
from mrag.settings import Settings, parse_settings
from tests.s3_server import new_root

pytestmark = pytest.mark.usefixtures("cluster")

TEXTS = {
    "a.md": "# Alpha\n\nAda built the alpha engine in 1843.\n\nThe alpha engine weighs 12 tonnes.",
    "b/a.md": "# Beta\n\nGrace built the beta compiler in 1952.",
    "c.txt": "Karen weighs terms by their rarity.",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "documents"
    for name, text in TEXTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    lines = [{"id": "d", "title": "D", "text": "Delta is a river."}, {"id": "e", "text": ""}]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    return folder


def settings_for(root: Path, **changes: Any) -> Settings:
    tree: dict[str, Any] = {"method": "sane", "collection": {"root": str(root), "name": "c", "shards": 3}}
    return parse_settings({**tree, **changes})


def scripted(root: Path, rules: list[dict[str, Any]]) -> Settings:
    replies = root / "replies.jsonl"
    root.mkdir(exist_ok=True)
    replies.write_text("\n".join(map(json.dumps, rules)), "utf-8")
    return settings_for(root, method="ours", language_model={"engine": "scripted", "replies": str(replies)})


def counts(report: Report) -> dict[str, int]:
    return {status.value: count for status, count in report.counts.items() if count}


def contents(settings: Settings, documents: tuple[str, ...]) -> dict[str, Any]:
    collection = Collection.open(settings.collection.root, settings.collection.name, legs=())
    found = {name: (collection.document(name), collection.records(name)) for name in documents}
    collection.close()
    return found


def test_a_job_writes_what_one_process_writes_and_the_next_what_is_new(folder: Path, tmp_path: Path) -> None:
    settings = settings_for(tmp_path / "collections")
    first = index(settings, folder)
    assert counts(first) == {"indexed": 4, "empty": 1}
    assert (first.inputs, first.exit_code, first.generation) == (5, 0, 1)
    assert first.coverage.after_repair == 1.0
    alone, documents = settings_for(tmp_path / "alone"), ("a.md", "b/a.md", "c.txt", "d")
    asyncio.run(index_folder(alone, folder))
    assert contents(settings, documents) == contents(alone, documents)

    again = index(settings, folder)
    assert counts(again) == {"unchanged": 4, "empty": 1}
    assert again.generation == 1

    (folder / "c.txt").write_text("Karen weighs terms by how rare they are.", "utf-8")
    (folder / "copy.md").write_text(TEXTS["b/a.md"], "utf-8")
    (folder / "picture.png").write_bytes(b"\x89PNG\x00\x00")
    third = index(settings, folder)
    assert counts(third) == {"indexed": 1, "unchanged": 3, "empty": 1, "duplicate": 1, "unsupported": 1}
    assert third.generation == 2
    _, records = contents(settings, ("c.txt",))["c.txt"]
    assert [record.value for record in records] == ["Karen weighs terms by how rare they are."]

    (tmp_path / "new" / "b").mkdir(parents=True)
    (tmp_path / "new" / "b" / "a.md").write_text("# Beta\n\nBeta is no more.", "utf-8")
    fourth = index(settings, tmp_path / "new")
    assert (counts(fourth), fourth.promoted, fourth.generation) == ({"indexed": 1}, ("copy.md",), 3)
    assert contents(settings, ("copy.md",))["copy.md"][0].text == TEXTS["b/a.md"]

    with pytest.raises(CollectionError):
        index(settings_for(tmp_path / "collections", method="fixed"), folder)


@pytest.mark.slow
def test_a_job_and_its_workers_write_to_an_object_store(folder: Path, tmp_path: Path, s3_host: str) -> None:
    documents = ("a.md", "b/a.md", "c.txt", "d")
    stored, local = settings_for(new_root(s3_host)), settings_for(tmp_path / "one")
    try:
        assert counts(index(stored, folder)) == {"indexed": 4, "empty": 1}
        asyncio.run(index_folder(local, folder))
        assert contents(stored, documents) == contents(local, documents)
        assert compact(stored, write_shards).generation == 2
        assert contents(stored, documents) == contents(local, documents)
        assert counts(index(stored, folder)) == {"unchanged": 4, "empty": 1}
    finally:
        shutil.rmtree(local_root(stored.collection.root))  # Where the workers keep weights, too.


def test_documents_of_one_file_are_taken_one_by_one(tmp_path: Path) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    lines = [json.dumps({"id": f"d{number}", "text": f"Ship {number}."}) for number in range(7)]
    (folder / "rows.jsonl").write_text("\n".join(lines), "utf-8")
    settings = settings_for(tmp_path / "collections")
    read = documents(settings, folder, survey(settings, folder)[1]).materialize()
    assert (read.count(), read.num_blocks()) == (7, 7)


def test_a_failed_document_is_named_and_costs_itself_only(folder: Path, tmp_path: Path) -> None:
    (folder / "broken.jsonl").write_text('{"id": "f", "text": "Fine."}\n{oops\n', "utf-8")
    root = tmp_path / "collections"
    dead = {"purpose": "markers", "contains": ["Grace"], "error": "timeout"}
    settings = scripted(root, [dead, {"purpose": "markers", "reply": "nothing usable"}])
    (folder / "copy.md").write_text(TEXTS["b/a.md"], "utf-8")
    (folder / os.fsdecode(b"caf\xe9.txt")).write_text("Its name is no UTF-8.", "utf-8")
    report = index(settings, folder)
    assert counts(report) == {"indexed": 5, "empty": 1, "failed": 3}
    assert report.exit_code == 1
    assert sorted(item.id for item in report.named if item.status is Status.FAILED) == [
        "b/a.md",
        "broken.jsonl#2",
        "copy.md",
    ]
    assert report.coverage.after_repair == 1.0
    assert report.fallback_share == 1.0

    settings = scripted(root, [{"purpose": "markers", "reply": "nothing usable"}])
    again = counts(index(settings, folder))
    assert again == {"indexed": 1, "duplicate": 1, "unchanged": 5, "empty": 1, "failed": 1}


def test_what_can_not_be_done_is_said_before_any_work(folder: Path, tmp_path: Path) -> None:
    settings = settings_for(tmp_path / "collections")
    with pytest.raises(InputError, match="nowhere"):
        index(settings, tmp_path / "nowhere")
    with pytest.raises(SettingsError, match="absolute"):
        index(parse_settings({"method": "sane"}), folder)


@pytest.mark.slow
def test_a_cap_leaves_documents_pending_and_the_next_run_goes_on(folder: Path, tmp_path: Path) -> None:
    root = tmp_path / "collections"
    named = (("Ada", "Who built the alpha engine?", 1), ("alpha engine weighs", "What weighs 12 tonnes?", 2))
    named += (("Grace", "Who built the beta compiler?", 1), ("Karen", "Who weighs terms?", 1))
    rules = [
        {
            "contains": [f"Write at least 1 records for [{unit}]", words],
            "reply": {"records": [{"units": [unit], "key": key, "value": f"It was {words} who did."}]},
        }
        for words, key, unit in (*named, ("Delta", "What is Delta?", 1))
    ]
    settings = scripted(root, rules)
    none = index(settings, folder, max_llm_tokens=0)
    assert counts(none) == {"pending": 4, "empty": 1}
    assert (none.usage.calls, none.exit_code, none.generation) == (0, 0, 0)

    whole = index(scripted(tmp_path / "whole", rules), folder).usage
    spent = left = index(settings, folder, max_llm_tokens=whole.tokens // 2)
    assert 0 < spent.usage.tokens <= whole.tokens // 2
    assert counts(left)["pending"] >= 1
    assert left.left
    assert left.left.documents == counts(left)["pending"]
    rest = index(settings, folder, max_llm_tokens=10 * whole.tokens)
    assert counts(rest)["indexed"] == counts(left)["pending"]
    assert spent.usage.calls + rest.usage.calls == whole.calls


@pytest.mark.slow
def test_a_synced_and_compacted_collection_holds_what_the_folder_has(folder: Path, tmp_path: Path) -> None:
    settings = settings_for(tmp_path / "collections")
    index(settings, folder)
    (folder / "c.txt").unlink()
    report = index(settings, folder, sync=True)
    assert (report.removed, report.generation) == (("c.txt",), 2)
    before = contents(settings, ("a.md", "b/a.md", "d"))
    fewer = settings_for(
        tmp_path / "collections", collection={**settings.collection.model_dump(), "shards": 2}
    )
    assert compact(fewer, write_shards).documents == 3
    assert contents(settings, ("a.md", "b/a.md", "d")) == before
    assert not [path for path in tmp_path.rglob("documents.arrow") if b"Karen" in path.read_bytes()]
    assert counts(index(settings, folder)) == {"unchanged": 3, "empty": 1}
    limits = {**settings.collection.model_dump(), "compaction": {"segments": 1}}
    (folder / "new.txt").write_text("A new pier.")
    report = index(settings_for(tmp_path / "collections", collection=limits), folder)
    assert report.compaction.startswith("for 2 segments: ")
    assert (counts(report)["indexed"], report.generation) == (1, 5)
    assert contents(settings, ("a.md", "b/a.md", "d")) == before

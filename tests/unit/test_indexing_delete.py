"""Documents leave a collection: by a folder that lacks them, by id, by filter. What is left is as if new."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from typer.testing import CliRunner

from mrag import cli
from mrag.collection import Copy, existing_manifest, known_documents, publish, read_manifest
from mrag.collection.filter_forms import short_filter
from mrag.errors import InputError, NotFoundError
from mrag.indexing.compact import compact
from mrag.indexing.delete import delete_documents, read_ids
from mrag.indexing.ledger import Ledger
from mrag.indexing.run import index_folder
from mrag.models.language_model import Completion
from mrag.schema import Status, Usage
from tests.marker_replies import record
from tests.synced_folder import ALMA, LINES, PIER, TOVE, content, settings, sync, write

REPLY = Completion("What was said of it.", Usage(1, 7, 3))


@pytest.mark.parametrize(
    "after",
    [
        {"a": ALMA, "b": TOVE},  # one is gone
        {"a": ALMA, "b": TOVE, "d": PIER},  # one has another name
        {"a": ALMA, "b": "Tove sank.", "c": PIER},  # one is another
        {"b": PIER},
        {"c": ALMA, "a": PIER, "b": TOVE},  # two changed places
    ],
)
def test_a_synced_collection_is_the_one_that_would_be_built_anew(place: Path, after: dict[str, str]) -> None:
    before = {"a": ALMA, "b": TOVE, "c": PIER}
    write(place, before)
    assert sync(place).generation == 1
    write(place, after)
    report = sync(place)
    assert (report.generation, report.exit_code) == (2, 0)
    assert report.removed == tuple(sorted(f"{name}.txt" for name in before.keys() - after.keys()))
    fresh = place / "fresh"
    (fresh / "in").mkdir(parents=True)
    write(fresh, after)
    sync(fresh)
    assert content(place) == content(fresh)
    assert sync(place).generation == 2


def test_a_folder_that_became_empty_of_documents_is_refused_and_nothing_is_lost(place: Path) -> None:
    write(place, {"a": ALMA})
    sync(place)
    write(place, {})
    with pytest.raises(InputError):
        sync(place)
    assert known_documents(place / "root", "default").keys() == {"a.txt"}


def texts_of(known: Mapping[str, str]) -> list[str]:
    """The hashes of the texts, without those of what is said about them."""
    return sorted(content_hash.partition("-")[0] for content_hash in known.values())


@example(history=[{"a": TOVE, "b": TOVE, "c": ALMA}, {"a": ALMA, "c": ALMA}])
@example(history=[{"a": ALMA, "b": TOVE}, {"b": ALMA, "c": PIER}])
@examples(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.dictionaries(st.sampled_from("abcd"), st.sampled_from([ALMA, TOVE, PIER, "Nothing."]), min_size=1),
        min_size=2,
        max_size=4,
    )
)
def test_any_history_of_a_folder_ends_where_a_new_build_does(
    place: Path, tmp_path_factory: pytest.TempPathFactory, history: list[dict[str, str]]
) -> None:
    place, fresh = tmp_path_factory.mktemp("old"), tmp_path_factory.mktemp("new")
    for root in (place, fresh):
        (root / "in").mkdir()
    for texts in history:
        write(place, texts)
        sync(place)
    write(fresh, history[-1])
    sync(fresh)
    held, new = (known_documents(root / "root", "default") for root in (place, fresh))
    # Which of several documents of one text holds it, with its own path, depends on who was first.
    assert texts_of(held) == texts_of(new)
    if held == new:
        assert content(place) == content(fresh)


def test_a_deleted_first_copy_hands_its_text_on(place: Path) -> None:
    write(place, {"a": ALMA, "copy": ALMA})
    assert sync(place).counts[Status.DUPLICATE] == 1
    write(place, {"copy": ALMA})
    report = sync(place)
    assert (report.removed, report.counts[Status.INDEXED]) == (("a.txt",), 1)
    assert known_documents(place / "root", "default").keys() == {"copy.txt"}
    manifest = read_manifest(place / "root", "default")
    assert manifest is not None
    assert manifest.duplicates == {}


@pytest.mark.parametrize("limit", [0, 10_000])
def test_a_renamed_document_stays_under_its_old_name_until_it_has_the_new_one(
    place: Path, limit: int
) -> None:
    script = place / "script.jsonl"
    script.write_text(json.dumps({"purpose": "markers", "reply": {"records": [record(1)]}}))
    tree = {"method": "ours", "language_model": {"engine": "scripted", "replies": str(script)}}
    write(place, {"old": ALMA})
    sync(place, **tree)
    write(place, {"new": ALMA})
    report = asyncio.run(index_folder(settings(place, **tree), place / "in", None, limit, sync=True))
    indexed = report.counts[Status.INDEXED] == 1
    assert indexed == (limit > 0)
    assert report.removed == (("old.txt",) if indexed else ())
    assert known_documents(place / "root", "default").keys() == {"new.txt" if indexed else "old.txt"}


def test_a_folder_that_can_not_be_listed_removes_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(place, {"a": ALMA})
    (place / "in" / "sub").mkdir()
    (place / "in" / "sub" / "b.txt").write_text(TOVE)
    sync(place)
    scandir = os.scandir

    def refused(path: Any) -> Any:
        if str(path).endswith("sub"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    report = sync(place)
    assert (report.removed, report.exit_code) == ((), 1)
    assert "sub" in report.withheld
    assert known_documents(place / "root", "default").keys() == {"a.txt", "sub/b.txt"}


# --------------------------------------------------------------------------- by id, by filter


@pytest.mark.parametrize(
    ("ids", "filters", "left"),
    [
        (["a"], [], {"copy", "b", "c"}),
        (["a", "c"], [], {"copy", "b"}),
        (["a", "copy"], [], {"b", "c"}),
        ([], ["lang=en"], {"copy", "c"}),
        ([], ["lang=en", "date>=2025-01"], {"a", "c"}),
        ([], ["id=copy"], {"a", "b", "c"}),
        (["c"], ["date>=2025-01"], {"a"}),
        ([], ["lang=fr"], {"a", "b", "c"}),
        ([], ["id=b"], {"a", "c"}),
        (["a", "b", "c", "copy"], [], set()),
    ],
)
def test_what_is_named_is_gone_at_once(
    library: Path, ids: list[str], filters: list[str], left: set[str]
) -> None:
    deletion = delete_documents(settings(library), ids, short_filter(filters))
    assert known_documents(library / "root", "default").keys() == left
    assert {"a", "b", "c"} - left <= set(deletion.deleted) <= {"a", "b", "c", "copy"} - left
    assert deletion.promoted == (("copy",) if "copy" in left else ())
    assert deletion.generation == (2 if deletion.deleted else 1)
    kept = [line for line in LINES if line["id"] in left]
    if kept:
        (library / "new" / "in").mkdir(parents=True)
        (library / "new" / "in" / "l.jsonl").write_text("\n".join(map(json.dumps, kept)))
        sync(library / "new")
        assert content(library) == content(library / "new")


def test_what_loses_its_text_and_what_is_not_there_is_named(library: Path) -> None:
    root = library / "root"
    stamp = existing_manifest(root, "default").stamp
    publish(root, "default", stamp, None, copies={"copy": Copy("a")})  # As it was kept once.
    deletion = delete_documents(settings(library), ["a", "nobody"])
    assert (deletion.deleted, deletion.unknown, deletion.bared) == (("a",), ("nobody",), ("copy",))
    assert deletion.exit_code == 1
    assert ("same text, not indexed", "copy") in deletion.table()
    report = asyncio.run(index_folder(settings(library), library / "in"))
    assert (report.counts[Status.INDEXED], report.counts[Status.DUPLICATE]) == (1, 1)


def test_a_duplicate_can_be_deleted_and_its_first_stays(library: Path) -> None:
    deletion = delete_documents(settings(library), ["copy"])
    assert (deletion.deleted, deletion.bared, deletion.exit_code) == (("copy",), (), 0)
    assert known_documents(library / "root", "default").keys() == {"a", "b", "c"}


def test_nothing_named_deletes_nothing(library: Path) -> None:
    with pytest.raises(InputError):
        delete_documents(settings(library), [])
    with pytest.raises(NotFoundError):
        delete_documents(settings(library, collection={"root": library / "none"}), ["a"])


def test_replies_of_deleted_documents_leave_the_ledger(place: Path) -> None:
    script = place / "script.jsonl"
    rule = {
        "purpose": "markers",
        "reply": {"records": [record(1, value="The ferry Alma is old.")]},
    }
    script.write_text(json.dumps(rule))
    tree = {"method": "ours", "language_model": {"engine": "scripted", "replies": str(script)}}
    write(place, {"a": ALMA, "b": PIER})
    sync(place, **tree)
    ledger = place / "root" / "default" / "ledger"
    assert any("Alma" in file.read_text() for file in ledger.rglob("*.json"))
    delete_documents(settings(place, **tree), ["a.txt"])
    assert not any("Alma" in file.read_text() for file in ledger.rglob("*.json"))


@pytest.mark.parametrize("cause", ["failed", "pending"])
def test_replies_of_a_document_that_was_never_published_go_with_its_file(place: Path, cause: str) -> None:
    script = place / "script.jsonl"
    rules: list[dict[str, Any]] = [{"contains": ["[1] Tove"], "reply": {"records": [record(1)]}}]
    rules += [{"contains": ["[2] She"], "error": "timeout"}] if cause == "failed" else []
    script.write_text("\n".join(map(json.dumps, rules)))
    tree = {"method": "ours", "language_model": {"engine": "scripted", "replies": str(script)}}
    write(place, {"b": TOVE})
    ledger = place / "root" / "default" / "ledger"
    Ledger(place / "root", "default").entries("gone.txt").put("key", REPLY)
    if cause == "failed":
        assert sync(place, **tree).counts[Status.FAILED] == 1
    else:
        given = settings(place, **tree)
        report = asyncio.run(index_folder(given, place / "in", max_llm_tokens=0, sync=True))
        assert report.counts[Status.PENDING] == 1
        Ledger(place / "root", "default").entries("b.txt").put("key", REPLY)
    assert len(list(ledger.rglob("*.json"))) == 1
    write(place, {"c": PIER})
    sync(place)
    assert not list(ledger.rglob("*.json"))


def test_replies_that_a_killed_deletion_left_go_with_the_next(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = place / "script.jsonl"
    script.write_text(json.dumps({"purpose": "markers", "reply": {"records": [record(1)]}}))
    tree = {"method": "ours", "language_model": {"engine": "scripted", "replies": str(script)}}
    write(place, {"a": ALMA, "b": TOVE})
    sync(place, **tree)
    with monkeypatch.context() as killed:
        killed.setattr(Ledger, "forget", lambda *_: None)
        delete_documents(settings(place, **tree), ["a.txt", "b.txt"])
    kept = place / "root" / "default" / "ledger"
    assert len(list(kept.rglob("*.json"))) == 2
    assert delete_documents(settings(place, **tree), ["a.txt"]).unknown == ("a.txt",)
    assert len(list(kept.rglob("*.json"))) == 1
    compact(settings(place, **tree))
    assert not list(kept.rglob("*.json"))


def test_the_command_deletes_by_id_file_and_filter(library: Path) -> None:
    root = ["--set", f"collection.root={library / 'root'}"]
    (library / "ids").write_text("b\n\nnobody\n")
    done = CliRunner().invoke(cli.app, ["delete", "c", "--from", str(library / "ids"), "--json", *root])
    assert done.exit_code == 1
    told = json.loads(done.stdout)
    assert (told["deleted"], told["unknown"], told["generation"]) == (["b", "c"], ["nobody"], 2)
    done = CliRunner().invoke(cli.app, ["delete", "--filter", "lang=en", *root])
    assert done.exit_code == 0
    assert "deleted" in done.stdout
    assert "indexed in its place" in done.stdout
    assert known_documents(library / "root", "default").keys() == {"copy"}


def test_a_file_of_ids_that_can_not_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"\xff\xfe\x00")
    for file in (tmp_path / "none", tmp_path, tmp_path / "bad"):
        with pytest.raises(InputError):
            read_ids(file)

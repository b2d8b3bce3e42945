"""A document that goes hands its text on to its duplicate, by the same generation and without a model."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from mrag.collection import Copy, duplicates, existing_manifest, known_documents
from mrag.collection import manifest as manifest_module
from mrag.collection.filter_forms import parse_filter
from mrag.errors import ModelError
from mrag.indexing import delete, run
from mrag.indexing.compact import compact
from mrag.indexing.delete import delete_documents
from mrag.indexing.diff import Input
from mrag.indexing.report import Report
from mrag.indexing.run import index_folder
from mrag.schema import RecordKind, Status
from mrag.settings import Settings, parse_settings
from tests.damage import truncate
from tests.hash_encoder import HashEncoder
from tests.marker_replies import record
from tests.synced_folder import ALMA, PIER, TOVE, content, write_lines

Line = dict[str, Any]
FIRST: Line = {"id": "first", "text": ALMA, "title": "Ferries", "metadata": {"year": 2024}}
HEIR: Line = {"id": "heir", "text": ALMA, "title": "Old ships", "metadata": {"year": 2025}}
OTHER: Line = {"id": "other", "text": ALMA, "title": "Ferries", "metadata": {"year": 2026}}
TWIN: Line = {"id": "twin", "text": PIER, "title": "Piers", "metadata": {}}
PIERS: Line = {"id": "piers", "text": PIER, "title": "Piers", "metadata": {"year": 1999}}
LINES = [FIRST, PIERS, TWIN, HEIR, OTHER]


class Refused(HashEncoder):
    """An encoder whose weights can't be had."""

    def encode(self, texts: Sequence[str], kind: str) -> Any:
        raise ModelError("There are no weights here.")


def settings_of(root: Path, retrieval: str = "keys", key_text: str = "titled", **tree: Any) -> Settings:
    method = {"builder": {"name": "units"}, "retrieval": {"name": retrieval}, "reader": {"name": "sane"}}
    place = {"root": root, "shards": 2}
    return parse_settings(
        {"method": method, "collection": place, "extraction": {"key_text": key_text}, **tree}
    )


def index(settings: Settings, place: Path, lines: Sequence[Line], sync: bool = False) -> Report:
    return asyncio.run(index_folder(settings, write_lines(place, lines), sync=sync))


def assert_as_new(place: Path, settings: Settings, lines: Sequence[Line]) -> None:
    """The collection is the one that these lines make, and a run over them finds nothing to do."""
    fresh = settings.model_copy(
        update={"collection": settings.collection.model_copy(update={"root": place / "fresh"})}
    )
    shutil.rmtree(place / "fresh", ignore_errors=True)
    index(fresh, place / "lines", lines)
    assert content(place, settings.collection.root) == content(place, place / "fresh")
    generation = existing_manifest(settings.collection.root, "default").generation
    report = index(settings, place / "lines", lines)
    assert report.counts[Status.UNCHANGED] + report.counts[Status.DUPLICATE] == len(lines)
    assert report.generation == generation


# --------------------------------------------------------------------------- by deletion


@pytest.mark.parametrize("retrieval", ["keys", "keys+units"])
@pytest.mark.parametrize("key_text", ["key", "titled"])
def test_a_deleted_document_hands_its_text_on_in_the_same_generation(
    place: Path, retrieval: str, key_text: str
) -> None:
    settings = settings_of(place / "root", retrieval, key_text)
    index(settings, place / "in", LINES)
    done = delete_documents(settings, ["first", "piers"])
    assert (done.deleted, done.promoted, done.bared) == (("first", "piers"), ("heir", "twin"), ())
    assert done.generation == 2
    assert ("indexed in its place", "heir") in done.table()
    assert duplicates(place / "root", "default") == {"other": "heir"}
    assert_as_new(place, settings, [TWIN, HEIR, OTHER])
    assert delete_documents(settings, ["heir"]).promoted == ("other",)
    assert_as_new(place, settings, [TWIN, OTHER])
    compact(settings)
    assert_as_new(place, settings, [TWIN, OTHER])


def test_so_it_does_in_an_object_store(place: Path, s3_root: Path) -> None:
    settings = settings_of(s3_root)
    index(settings, place / "in", LINES)
    assert delete_documents(settings, ["first"]).promoted == ("heir",)
    assert_as_new(place, settings, [PIERS, TWIN, HEIR, OTHER])


@pytest.mark.parametrize(
    ("year", "deleted", "promoted"),
    [(2025, ("heir", "other"), ()), (2024, ("first", "heir", "other"), ()), (1999, ("piers",), ("twin",))],
)
def test_a_filter_takes_duplicates_by_what_is_their_own(
    place: Path, year: int, deleted: tuple[str, ...], promoted: tuple[str, ...]
) -> None:
    settings = settings_of(place / "root")
    index(settings, place / "in", LINES)
    test = {"lt": 2000} if year == 1999 else {"gte": year}
    done = delete_documents(settings, (), parse_filter({"year": test}))
    assert (done.deleted, done.promoted, done.bared) == (deleted, promoted, ())
    assert_as_new(place, settings, [line for line in LINES if line["id"] not in deleted])


def test_records_of_a_model_are_handed_on_and_it_is_not_asked(place: Path) -> None:
    script = place / "script.jsonl"
    rule = {"purpose": "markers", "reply": {"records": [record(1, value="Alma is a ferry.")]}}
    script.write_text(json.dumps(rule))
    model = {"engine": "scripted", "replies": str(script)}
    settings = parse_settings(
        {"method": "ours", "collection": {"root": place / "root"}, "language_model": model}
    )
    index(settings, place / "in", [FIRST, OTHER])
    script.write_text("")
    assert delete_documents(settings, ["first"]).promoted == ("other",)
    found = content(place)["other"]
    assert [one.value for one in found[2]] == ["Alma is a ferry."]
    assert found[0].metadata["year"] == 2026
    report = index(settings, place / "in", [OTHER])
    assert (report.counts[Status.UNCHANGED], report.usage.calls) == (1, 0)


def test_a_record_that_names_the_title_of_what_is_deleted_goes_with_it(place: Path) -> None:
    script = place / "script.jsonl"
    told = [record(1, value="Alma is a ferry."), record(2, value="In Secret Plans a pier is of stone.")]
    script.write_text(json.dumps({"purpose": "markers", "reply": {"records": told}}))
    model = {"engine": "scripted", "replies": str(script)}
    tree = {"method": "ours", "collection": {"root": place / "root"}, "language_model": model}
    settings = parse_settings(tree)
    text = f"{ALMA}\n\n{PIER}"
    first = {"id": "first", "text": text, "title": "Secret plans", "metadata": {}}
    index(settings, place / "in", [first, {**first, "id": "heir", "title": "Notes"}])
    assert any("Secret" in one.value for one in content(place)["first"][2])
    delete_documents(settings, ["first"])
    compact(settings)
    values = [(one.value, one.kind) for one in content(place)["heir"][2]]
    assert values == [("Alma is a ferry.", RecordKind.MARKER), (PIER, RecordKind.FALLBACK)]
    left = [path for path in (place / "root").rglob("*") if path.is_file()]
    assert not [path for path in left if b"secret" in path.read_bytes().lower()]


@pytest.mark.parametrize("encoder", [Refused("hash"), HashEncoder("another")])
def test_without_its_encoder_a_text_is_handed_on_under_the_same_title_only(
    place: Path, monkeypatch: pytest.MonkeyPatch, encoder: HashEncoder
) -> None:
    settings = settings_of(place / "root")
    index(settings, place / "in", LINES)
    with monkeypatch.context() as patch:
        patch.setattr(delete, "open_encoder", lambda _: encoder)
        assert delete_documents(settings, ["first"]).promoted == ("other",)
        assert duplicates(place / "root", "default") == {"heir": "other", "twin": "piers"}
        done = delete_documents(settings, ["other"])
    assert (done.promoted, done.bared) == ((), ("heir",))
    assert known_documents(place / "root", "default").keys() == {"piers"}
    assert index(settings, place / "in", [PIERS, TWIN, HEIR]).counts[Status.INDEXED] == 1
    assert_as_new(place, settings, [PIERS, TWIN, HEIR])


@pytest.mark.parametrize(("suffix", "handed_on"), [("md", True), ("txt", False)])
def test_what_has_other_headings_is_indexed_by_the_next_run(
    place: Path, suffix: str, handed_on: bool
) -> None:
    settings = settings_of(place / "root")
    names = ("a.md", f"copy.{suffix}")
    for name in names:
        (place / "in" / name).write_text(f"# Ferries\n\n{ALMA}")
    assert asyncio.run(index_folder(settings, place / "in")).counts[Status.DUPLICATE] == 1
    done = delete_documents(settings, ["a.md"])
    assert (done.promoted, done.bared) == ((names[1:], ()) if handed_on else ((), names[1:]))
    (place / "in" / "a.md").unlink()
    found = asyncio.run(index_folder(settings, place / "in")).counts
    assert found[Status.UNCHANGED if handed_on else Status.INDEXED] == 1


def test_a_damaged_shard_holds_no_deletion_up(place: Path) -> None:
    settings = settings_of(place / "root")
    index(settings, place / "in", [FIRST, OTHER])
    manifest = existing_manifest(place / "root", "default")
    for _, _, folder in manifest.shard_folders(place / "root"):
        truncate(folder / "units.arrow")
    done = delete_documents(settings, ["first"])
    assert (done.deleted, done.promoted, done.bared, done.generation) == (("first",), (), ("other",), 2)


# --------------------------------------------------------------------------- by a run


def test_a_changed_document_hands_its_old_text_on(place: Path) -> None:
    settings = settings_of(place / "root")
    index(settings, place / "in", LINES)
    report = index(settings, place / "new", [{**FIRST, "text": TOVE}])
    assert (report.counts[Status.INDEXED], report.promoted, report.bared) == (1, ("heir",), ())
    assert report.generation == 2
    assert_as_new(place, settings, [{**FIRST, "text": TOVE}, PIERS, TWIN, HEIR, OTHER])


def test_one_that_changed_in_all_but_its_text_keeps_its_duplicates(place: Path) -> None:
    settings = settings_of(place / "root")
    index(settings, place / "in", LINES)
    report = index(settings, place / "new", [{**FIRST, "title": "Boats"}])
    assert report.promoted == ()
    assert duplicates(place / "root", "default") == {"heir": "first", "other": "first", "twin": "piers"}
    assert delete_documents(settings, ["first"]).promoted == ("heir",)


def test_a_file_that_can_not_be_read_keeps_the_text_of_a_document_that_is_gone(place: Path) -> None:
    settings = settings_of(place / "root")
    for name in ("a", "copy"):
        (place / "in" / f"{name}.txt").write_text(ALMA)
    asyncio.run(index_folder(settings, place / "in"))
    (place / "in" / "a.txt").unlink()
    (place / "in" / "copy.txt").write_bytes(b"\x00\x01\x02" * 99)
    (place / "in" / "b.txt").write_text(PIER)
    report = asyncio.run(index_folder(settings, place / "in", sync=True))
    assert [outcome.id for outcome in report.named] == ["copy.txt"]
    assert (report.removed, report.promoted) == (("a.txt",), ("copy.txt",))
    assert known_documents(place / "root", "default").keys() == {"b.txt", "copy.txt"}


def test_a_duplicate_that_became_empty_is_nobodys_any_more(place: Path) -> None:
    settings = settings_of(place / "root")
    index(settings, place / "in", [FIRST, HEIR])
    index(settings, place / "in", [{**HEIR, "text": " "}])
    assert duplicates(place / "root", "default") == {}
    assert delete_documents(settings, ["first"]).promoted == ()


def test_what_is_kept_of_a_duplicate_follows_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(place / "root")
    index(settings, place / "in", [FIRST, HEIR])
    later = {**HEIR, "metadata": {"year": 2030}}
    assert index(settings, place / "in", [FIRST, later]).generation == 2
    with monkeypatch.context() as patch:
        patch.setattr(run, "read_wanted", nothing_wanted)
        assert index(settings, place / "in", [FIRST, later]).generation == 2
    delete_documents(settings, ["first"])
    assert_as_new(place, settings, [later])


@pytest.mark.parametrize(("title", "calls"), [("Ferries", 0), ("Boats", 1)])
def test_a_file_that_moved_is_not_paid_for_again(place: Path, title: str, calls: int) -> None:
    script = place / "script.jsonl"
    script.write_text(json.dumps({"purpose": "markers", "reply": {"records": [record(1)]}}))
    model = {"engine": "scripted", "replies": str(script)}
    settings = parse_settings(
        {"method": "ours", "collection": {"root": place / "root"}, "language_model": model}
    )
    index(settings, place / "in", [FIRST])
    report = index(settings, place / "in", [{**FIRST, "id": "moved", "title": title}], sync=True)
    assert (report.counts[Status.INDEXED], report.removed, report.usage.calls) == (1, ("first",), calls)
    assert report.reused.calls == 1 - calls
    assert len(list((place / "root" / "default" / "ledger").rglob("*.json"))) == 1


def nothing_wanted(_: Path, wanted: Iterable[Input]) -> list[Any]:
    assert not list(wanted)
    return []


# --------------------------------------------------------------------------- as it was kept once


def test_a_manifest_that_says_only_who_holds_a_text_is_read(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(place / "root")
    index(settings, place / "in", [FIRST, HEIR])
    with monkeypatch.context() as patch:
        patch.setattr(manifest_module, "asdict", older)
        (place / "more").mkdir()
        index(settings, place / "more", [PIERS])
    manifest = existing_manifest(place / "root", "default")
    assert (manifest.generation, manifest.copies) == (2, {"heir": Copy("first")})
    assert delete_documents(settings, ["first"]).bared == ("heir",)


def older(value: Any) -> dict[str, Any]:
    tree = asdict(value)
    if copies := tree.pop("copies", None):
        tree["duplicates"] = {name: copy["holder"] for name, copy in copies.items()}
    return tree

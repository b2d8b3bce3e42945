"""Documents leave a collection: by a folder that lacks them, by id, by filter. What is left is as if new."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from typer.testing import CliRunner

from mrag import cli
from mrag.collection import Collection, known_documents, read_manifest, restore
from mrag.collection.filter_forms import short_filter
from mrag.collection.manifest import Manifest, ShardInfo
from mrag.errors import CollectionError, InputError, NotFoundError
from mrag.indexing import run
from mrag.indexing.compact import compact, write_compacted
from mrag.indexing.delete import delete_documents, read_ids
from mrag.indexing.report import Report
from mrag.indexing.run import index_folder
from mrag.models.tokens import ByteTokenizer
from mrag.schema import Query, Status
from mrag.settings import Settings, parse_settings
from tests.hash_encoder import HashEncoder
from tests.marker_replies import record

ENCODER = HashEncoder()


@pytest.fixture(autouse=True)
def encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "open_encoder", lambda _: ENCODER)
    monkeypatch.setattr(run, "load_tokenizer", lambda _: ByteTokenizer())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def settings(place: Path, **tree: Any) -> Settings:
    return parse_settings({"method": "sane", "collection": {"root": place / "root", "shards": 2}, **tree})


def write(place: Path, texts: dict[str, str]) -> None:
    for old in (place / "in").iterdir():
        old.unlink()
    for name, text in texts.items():
        (place / "in" / f"{name}.txt").write_text(text)


def sync(place: Path, **tree: Any) -> Report:
    return asyncio.run(index_folder(settings(place, **tree), place / "in", sync=True))


def content(place: Path) -> dict[str, Any]:
    """All that can be asked of a collection, without the names of its segments."""
    collection = Collection.open(place / "root", "default")
    try:
        found: dict[str, Any] = {"counts": collection.manifest.counts}
        for identifier in sorted(known_documents(place / "root", "default")):
            found[identifier] = (
                collection.document(identifier),
                collection.units(identifier),
                collection.records(identifier),
            )
        for text in ("ferry harbour", "Alma", "stone pier of the harbour"):
            vector = ENCODER.encode([text], "query")[0]
            hits = collection.search(Query(text, depth=9, vector=vector))
            # Equal to rounding: a score of Lucene's is a sum of floats.
            found[text] = {leg: [(hit.record_id, f"{hit.score:.4g}") for hit in hits[leg]] for leg in hits}
        return found
    finally:
        collection.close()


ALMA, TOVE, PIER = "The ferry Alma is old.", "Tove is a ferry.\n\nShe is new.", "A stone pier of the harbour."


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


@examples(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.dictionaries(st.sampled_from("abcd"), st.sampled_from([ALMA, TOVE, PIER, "Nothing."]), min_size=1),
        min_size=2,
        max_size=4,
    )
)
def test_any_history_of_a_folder_ends_where_a_new_build_does(
    tmp_path_factory: pytest.TempPathFactory, history: list[dict[str, str]]
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
    # Which of several documents of one text holds it depends on who was first.
    assert sorted(held.values()) == sorted(new.values())
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


# --------------------------------------------------------------------------- by id, by filter


LINES = [
    {"id": "a", "text": ALMA, "metadata": {"lang": "en", "date": "2024-01-05"}},
    {"id": "b", "text": TOVE, "metadata": {"lang": "en", "date": "2025-01-05"}},
    {"id": "c", "text": PIER, "metadata": {"lang": "de"}},
    {"id": "copy", "text": ALMA},
]


@pytest.fixture
def library(place: Path) -> Path:
    (place / "in" / "l.jsonl").write_text("\n".join(map(json.dumps, LINES)))
    sync(place)
    return place


@pytest.mark.parametrize(
    ("ids", "filters", "left"),
    [
        (["a"], [], {"b", "c"}),
        (["a", "c"], [], {"b"}),
        ([], ["lang=en"], {"c"}),
        (["c"], ["date>=2025-01"], {"a"}),
        ([], ["lang=fr"], {"a", "b", "c"}),
        ([], ["id=b"], {"a", "c"}),
        (["a", "b", "c"], [], set()),
    ],
)
def test_what_is_named_is_gone_at_once(
    library: Path, ids: list[str], filters: list[str], left: set[str]
) -> None:
    deletion = delete_documents(settings(library), ids, short_filter(filters))
    assert known_documents(library / "root", "default").keys() == left
    assert set(deletion.deleted) == {"a", "b", "c"} - left
    assert deletion.generation == (1 if len(left) == 3 else 2)
    kept = [line for line in LINES if line["id"] in left]
    if kept:
        (library / "new" / "in").mkdir(parents=True)
        (library / "new" / "in" / "l.jsonl").write_text("\n".join(map(json.dumps, kept)))
        sync(library / "new")
        assert content(library) == content(library / "new")


def test_what_loses_its_text_and_what_is_not_there_is_named(library: Path) -> None:
    deletion = delete_documents(settings(library), ["a", "nobody"])
    assert (deletion.deleted, deletion.unknown, deletion.bared) == (("a",), ("nobody",), ("copy",))
    assert deletion.exit_code == 1
    assert asyncio.run(index_folder(settings(library), library / "in")).counts[Status.INDEXED] == 1


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
    assert known_documents(library / "root", "default") == {}


def test_a_file_of_ids_that_can_not_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"\xff\xfe\x00")
    for file in (tmp_path / "none", tmp_path, tmp_path / "bad"):
        with pytest.raises(InputError):
            read_ids(file)


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


def test_what_is_deleted_while_it_is_compacted_stays_deleted(library: Path) -> None:
    def write_slowly(given: Settings, before: Manifest, segment: str) -> list[ShardInfo]:
        delete_documents(given, ["b"])
        return [write_compacted(given, before, segment, shard) for shard in range(2)]

    assert compact(settings(library), write_slowly).generation == 3
    assert known_documents(library / "root", "default").keys() == {"a", "c"}
    assert content(library)["counts"].documents == 2
    assert compact(settings(library)).documents == 2
    assert not bytes_with(library, "Tove")


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
    done = CliRunner().invoke(cli.app, ["delete", "a", "b", "c", "--purge", "--json", *root])
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
    hits = opened.search(query)
    shown = {leg: [(hit.record_id, f"{hit.score:.4g}") for hit in hits[leg]] for leg in hits}
    assert shown == before["ferry harbour"]
    assert opened.document("a").text == ALMA
    opened.close()


def test_there_must_be_something_to_compact(library: Path) -> None:
    with pytest.raises(NotFoundError):
        compact(settings(library, collection={"root": library / "none"}))


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
    assert known_documents(root, "default").keys() == {"a", "b", "c", "new.txt"}
    assert restore(root, "default", 5).generation == 5
    compact(settings(library))
    for gone in (1, 5, 9):
        with pytest.raises(NotFoundError):
            restore(root, "default", gone)
    with pytest.raises(NotFoundError):
        restore(library, "none", 1)

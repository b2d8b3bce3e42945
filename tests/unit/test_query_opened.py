"""Collections kept open: each question gets the generation in force, and keeps the one it began with."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest

from mrag.collection import Collection, read_manifest
from mrag.errors import CollectionError, InputError, NotFoundError, SettingsError
from mrag.indexing.compact import compact
from mrag.query.opened import OpenCollections
from mrag.settings import parse_settings
from tests.collection_corpus import STAMP, add, ask, make_entry


@pytest.fixture
def root(tmp_path: Path) -> Path:
    add(tmp_path, "harbour", [make_entry("ferry", [["Which ferry is old?"]])])
    add(tmp_path, "city", [make_entry("tower", [["Which tower is high?"]])])
    return tmp_path


@pytest.fixture
def opened(root: Path) -> OpenCollections:
    return OpenCollections(root, STAMP.encoder)


def counted_openings(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    openings = []
    true_open = Collection.open

    def counted(*arguments: Any, **options: Any) -> Collection:
        openings.append(arguments)
        return true_open(*arguments, **options)

    monkeypatch.setattr(Collection, "open", counted)
    return openings


def found(collection: Any, text: str) -> set[str]:
    return {hit.record_id for hits in collection.search(ask(text)).values() for hit in hits}


def test_a_collection_is_opened_once_and_apart_from_others(opened: OpenCollections) -> None:
    harbour, city = opened("harbour"), opened("city")
    assert opened("harbour") is harbour
    assert opened("city") is city
    assert found(harbour, "Which ferry is old?") == {"ferry#1"}
    assert found(city, "Which ferry is old?") == {"tower#1"}


def test_a_new_generation_is_seen_and_the_one_before_lives_on(root: Path, opened: OpenCollections) -> None:
    before = opened("harbour")
    add(root, "harbour", [make_entry("barge", [["Which barge is new?"]])])
    after = opened("harbour")
    assert (before.manifest.generation, after.manifest.generation) == (1, 2)
    assert found(before, "Which barge is new?") == {"ferry#1"}
    assert found(after, "Which barge is new?") == {"ferry#1", "barge#1"}
    assert opened("harbour") is after


def mapped_words(segment: Path) -> list[str]:
    """Lucene's files of a segment that this process has mapped, once what is being closed is closed."""
    for thread in threading.enumerate():
        if thread.name == "closing a generation":
            thread.join()
    maps = Path("/proc/self/maps").read_text().splitlines()
    return [line for line in maps if str(segment) in line and "lucene" in line]


def test_a_generation_that_is_replaced_is_closed_when_the_last_question_lets_go(
    root: Path, opened: OpenCollections
) -> None:
    before = opened("harbour")
    (old,) = (root / "harbour" / "segments").iterdir()
    assert found(before, "Which ferry is old?")
    add(root, "harbour", [make_entry("ferry", [["Which barge is new?"]])])
    after = opened("harbour")
    assert mapped_words(old)
    assert found(before, "Which ferry is old?") == {"ferry#1"}
    compact(parse_settings({"collection": {"root": root, "name": "harbour"}}))
    assert opened("harbour") is not after
    del after
    assert mapped_words(old)
    assert found(before, "Which ferry is old?") == {"ferry#1"}
    del before
    assert not mapped_words(old)


def test_a_collection_that_is_gone_is_not_found(root: Path, opened: OpenCollections) -> None:
    opened("harbour")
    shutil.rmtree(root / "harbour")
    for _ in range(2):
        with pytest.raises(NotFoundError, match="no collection 'harbour'"):
            opened("harbour")
    assert found(opened("city"), "Which tower is high?") == {"tower#1"}


def test_a_collection_that_was_indexed_anew_is_seen_under_the_same_number(
    root: Path, opened: OpenCollections
) -> None:
    before = opened("harbour")
    shutil.rmtree(root / "harbour")
    add(root, "harbour", [make_entry("barge", [["Which barge is new?"]])])
    after = opened("harbour")
    assert after.manifest.generation == before.manifest.generation == 1
    assert found(after, "Which ferry is old?") == {"barge#1"}


@pytest.mark.parametrize(
    ("name", "error"), [("nowhere", NotFoundError), ("../city", InputError), ("", InputError)]
)
def test_what_is_no_collection_is_named(opened: OpenCollections, name: str, error: type[InputError]) -> None:
    with pytest.raises(error) as raised:
        opened(name)
    assert raised.value.field == "collection"
    assert repr(name) in str(raised.value)


def test_vectors_of_another_encoder_are_refused_every_time(root: Path) -> None:
    opened = OpenCollections(root, "another encoder")
    for _ in range(2):
        with pytest.raises(CollectionError, match="another encoder"):
            opened("harbour")


def add_barge(root: Path) -> Path:
    """A second generation of the harbour; its file of records."""
    add(root, "harbour", [make_entry("barge", [["Which barge is new?"]])])
    manifest = read_manifest(root, "harbour")
    assert manifest is not None
    (records,) = (root / "harbour" / "segments" / manifest.segments[-1].id).rglob("records.arrow")
    return records


def test_a_damaged_collection_is_refused_until_it_is_sound(root: Path, opened: OpenCollections) -> None:
    records = add_barge(root)
    sound = records.read_bytes()
    records.write_bytes(sound[:-1])
    for _ in range(2):
        with pytest.raises(CollectionError, match=r"records\.arrow"):
            opened("harbour")
    records.write_bytes(sound)
    assert opened("harbour").manifest.generation == 2


def test_the_generation_before_a_damaged_one_goes_on_serving(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[tuple[int, bool]] = []
    opened = OpenCollections(
        root,
        STAMP.encoder,
        retry_s=0,
        watch=lambda manifest, stuck: told.append((manifest.generation, stuck)),
    )
    before = opened("harbour")
    records = add_barge(root)
    sound = records.read_bytes()
    records.write_bytes(sound[:-1])
    assert opened("harbour") is before
    assert found(before, "Which barge is new?") == {"ferry#1"}
    assert "Collection harbour stays at generation 1" in caplog.text
    assert "records.arrow" in caplog.text
    records.write_bytes(sound)
    assert opened("harbour").manifest.generation == 2
    assert told == [(1, False), (1, True), (2, False)]


def test_the_generation_before_serves_where_a_gpu_can_not_take_the_next(
    root: Path, opened: OpenCollections, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = opened("harbour")
    add_barge(root)

    def full(*_: Any, **__: Any) -> Collection:
        raise SettingsError("The GPU can't take an index.")

    monkeypatch.setattr(Collection, "open", full)
    assert opened("harbour") is before
    with pytest.raises(SettingsError):
        opened("city")


def test_a_generation_that_failed_is_not_tried_by_every_question(
    root: Path, opened: OpenCollections, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = opened("harbour")
    add_barge(root).write_bytes(b"")
    openings = counted_openings(monkeypatch)
    assert [opened("harbour") for _ in range(3)] == [before] * 3
    assert (len(openings), len(caplog.records)) == (1, 1)


def test_a_pointer_that_can_not_be_read_leaves_the_generation_that_is_open(
    root: Path,
) -> None:
    told: list[bool] = []
    opened = OpenCollections(root, STAMP.encoder, watch=lambda _, stuck: told.append(stuck))
    before, current = opened("harbour"), root / "harbour" / "CURRENT"
    sound = current.read_bytes()
    current.write_text("?")
    assert opened("harbour") is before
    with pytest.raises(CollectionError, match="CURRENT"):
        OpenCollections(root, STAMP.encoder)("harbour")
    current.write_bytes(sound)
    assert [opened("harbour") for _ in range(2)] == [before] * 2
    assert told == [False, True, False]


def test_another_collection_under_the_name_is_no_later_generation(
    root: Path, opened: OpenCollections
) -> None:
    opened("harbour")
    shutil.rmtree(root / "harbour")
    add(root, "harbour", [], stamp=replace(STAMP, encoder="another"))
    add(root, "harbour", [make_entry("x", [["x"]])], stamp=replace(STAMP, encoder="another"))
    for _ in range(2):
        with pytest.raises(CollectionError, match="another"):
            opened("harbour")


def test_nobody_waits_for_a_generation_that_is_being_opened(
    root: Path, opened: OpenCollections, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = opened("harbour")
    add_barge(root)
    true_open, begun, go_on = Collection.open, Event(), Event()

    def slow(*arguments: Any, **options: Any) -> Collection:
        if "harbour" in arguments:
            begun.set()
            assert go_on.wait(60)
        return true_open(*arguments, **options)

    monkeypatch.setattr(Collection, "open", slow)
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(opened, "harbour")
        assert begun.wait(60)
        assert opened("city").manifest.name == "city"
        assert opened("harbour") is before
        go_on.set()
        assert opening.result(60).manifest.generation == 2
    assert opened("harbour") is opening.result()


def test_threads_that_ask_at_once_share_one_opening(
    root: Path, opened: OpenCollections, monkeypatch: pytest.MonkeyPatch
) -> None:
    openings, start = counted_openings(monkeypatch), Barrier(6)

    def asking(_: int) -> Collection:
        start.wait()
        return opened("harbour")

    with ThreadPoolExecutor(6) as pool:
        collections = list(pool.map(asking, range(6)))
    assert len({id(collection) for collection in collections}) == len(openings) == 1

"""Opening a collection: what is damaged or does not fit is refused in one sentence, the rest can be read."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrag.collection import Collection, known_documents, verified
from mrag.collection.storage import checksum
from mrag.errors import CollectionError, InputError, MragError, NotFoundError, SettingsError
from mrag.schema import Query, Record, RecordKind
from mrag.settings import DenseSettings
from tests.collection_corpus import STAMP_WITH_UNITS, add, ask, make_entry, vector_of, with_units
from tests.damage import flip, truncate


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("Wurzel ü {}")
    add(
        root,
        "c",
        [make_entry(f"d{number}", [["river bridge", "lake"], ["castle"]]) for number in range(6)],
        shards=2,
    )
    add(root, "c", [make_entry("d1", [["winter"]]), make_entry("e", [["copper"]])], duplicates={"copy": "e"})
    return root


def refusal(root: Path, verify: str) -> str:
    with pytest.raises(CollectionError) as caught:
        Collection.open(root, "c", verify=verify)  # type: ignore[arg-type]
    return str(caught.value)


# --------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(("damage", "verify"), [(Path.unlink, "fast"), (truncate, "fast"), (flip, "full")])
def test_every_damaged_file_is_refused_by_name(
    root: Path, tmp_path: Path, damage: Callable[[Path], None], verify: str
) -> None:
    whole = sorted(path.relative_to(root) for path in (root / "c" / "segments").rglob("*") if path.is_file())
    assert {path.name for path in whole} >= {
        "documents.arrow",
        "units.arrow",
        "records.arrow",
        "keys.faiss",
        "_0.cfs",
    }
    whole.append(Path("c/manifests/000002.json"))
    for number, path in enumerate(whole):
        copy = tmp_path / str(number)
        shutil.copytree(root, copy)
        damage(copy / path)
        sentence = refusal(copy, verify)
        assert str(path) in sentence
        assert sentence.endswith(".")
        assert "restore" in sentence


def read_all(root: Path) -> None:
    collection = Collection.open(root, "c", verify="fast", legs=())
    collection.analysis(len)
    for document in known_documents(root, "c"):
        collection.document(document)
        collection.units(document)
        collection.fetch([record.id for record in collection.records(document)])


@pytest.mark.parametrize("name", ["documents", "units", "records"])
def test_flipped_bytes_that_no_size_shows_are_a_damaged_collection(
    root: Path, tmp_path: Path, name: str
) -> None:
    shutil.copytree(root, tmp_path / "r")
    path = next((tmp_path / "r").rglob(f"{name}.arrow"))
    content = path.read_bytes()
    refused = 0
    for place in range(0, len(content), max(1, len(content) // 67)):
        flipped = bytearray(content)
        flipped[place] ^= 0x81
        path.write_bytes(flipped)
        try:
            read_all(tmp_path / "r")
        except MragError:
            refused += 1
    assert refused
    path.write_bytes(content)
    read_all(tmp_path / "r")


def test_a_kind_that_is_none_is_a_damaged_collection(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "r")
    for path in (tmp_path / "r").rglob("records.arrow"):
        path.write_bytes(path.read_bytes().replace(b"marker", b"warker"))
    with pytest.raises(CollectionError, match=r"warker.*: restore it"):
        read_all(tmp_path / "r")


def test_small_collections_are_verified_in_full_unless_told_otherwise(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "r")
    path = next((tmp_path / "r").rglob("records.arrow"))
    content = path.read_bytes()
    path.write_bytes(content.replace(b"value of", b"VALUE of"))
    with pytest.raises(CollectionError, match="checksum"):
        Collection.open(tmp_path / "r", "c")
    Collection.open(tmp_path / "r", "c", verify="fast")


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """Files of which all bytes are compared, where none is small, on a machine that has seen none."""
    files: list[Path] = []

    def noted(path: Path) -> str:
        files.append(path)
        return checksum(path)

    monkeypatch.setattr("mrag.collection.collection.SMALL_BYTES", 0)
    monkeypatch.setattr("mrag.collection.storage.checksum", noted)
    monkeypatch.setenv("MRAG_HOME", str(tmp_path / "home"))
    return files


def test_all_bytes_are_compared_once_on_a_machine(
    root: Path, tmp_path: Path, compared: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "r"
    shutil.copytree(root, copy)
    whole = {path for path in (copy / "c" / "segments").rglob("*") if path.is_file()}

    def opened(**how: Any) -> set[Path]:
        compared.clear()
        Collection.open(copy, "c", **how)
        return set(compared)

    assert opened() == whole
    assert opened() == opened(verify="fast") == set()
    assert opened(verify="full") == whole
    added = add(copy, "c", [make_entry("f", [["quarry"]])]).segments[-1].id
    new = opened()
    assert new
    assert all(added in path.parts for path in new)
    written = next(path for path in whole if path.name == "records.arrow")
    written.write_bytes(written.read_bytes())
    assert opened() == {written}
    monkeypatch.setenv("MRAG_HOME", str(tmp_path / "another machine"))
    assert opened() > whole


def test_a_file_that_changed_since_it_was_compared_is_compared_again(
    root: Path, tmp_path: Path, compared: list[Path]
) -> None:
    copy = tmp_path / "r"
    shutil.copytree(root, copy)
    Collection.open(copy, "c")
    path = next(copy.rglob("records.arrow"))
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b"value of", b"VALUE of"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    for _ in range(2):  # What was found damaged is not noted.
        with pytest.raises(CollectionError, match="checksum"):
            Collection.open(copy, "c")


@pytest.mark.parametrize("content", [b"", b"[]", b'{"files": 3}', b'{"files": {"records.arrow": 1}}', None])
def test_notes_that_can_not_be_used_cost_a_comparison(
    root: Path, tmp_path: Path, compared: list[Path], content: bytes | None
) -> None:
    Collection.open(root, "c")
    first = set(compared)
    notes = list((tmp_path / "home" / "verified").iterdir())
    assert len(notes) == len({path.parent for path in root.rglob("documents.arrow")})
    for note in notes:
        note.unlink()
        if content is not None:
            note.write_bytes(content)
        else:
            note.mkdir()
    compared.clear()
    Collection.open(root, "c")
    assert set(compared) == first


def test_notes_of_folders_that_are_gone_go_too(root: Path, tmp_path: Path, compared: list[Path]) -> None:
    shutil.copytree(root, tmp_path / "r")
    Collection.open(tmp_path / "r", "c")
    notes = tmp_path / "home" / "verified"
    gone = set(notes.iterdir())
    shutil.rmtree(tmp_path / "r")
    verified._forget_gone.cache_clear()
    Collection.open(root, "c")
    assert not gone & set(notes.iterdir())
    assert any(notes.iterdir())


def test_damage_that_only_the_engines_see_is_refused_too(root: Path, tmp_path: Path) -> None:
    for name in ("keys.faiss", "_0.cfs", "segments_1"):
        copy = tmp_path / name
        shutil.copytree(root, copy)
        path = next(copy.rglob(name))
        path.write_bytes(b"\xff" * path.stat().st_size)
        assert ("keys.faiss" if name == "keys.faiss" else "lucene") in refusal(copy, "fast")


def test_an_unknown_collection_or_generation_is_not_found(root: Path) -> None:
    for name in ("nowhere", "../c", ""):
        with pytest.raises(NotFoundError, match="There is no collection") as caught:
            Collection.open(root, name)
        assert caught.value.field == "collection"
    with pytest.raises(NotFoundError, match="no generation 9") as caught:
        Collection.open(root, "c", generation=9)
    assert caught.value.field == "generation"


def test_another_encoder_is_refused(root: Path) -> None:
    Collection.open(root, "c", encoder_fingerprint="hash-16")
    with pytest.raises(CollectionError, match="'c' is encoded by 'hash-16', not by 'e5': set that encoder"):
        Collection.open(root, "c", encoder_fingerprint="e5")


def test_a_gpu_that_is_not_there_is_refused(root: Path) -> None:
    faiss = pytest.importorskip("faiss")
    if hasattr(faiss, "StandardGpuResources") and faiss.get_num_gpus():
        pytest.skip("this machine has one")
    with pytest.raises(SettingsError, match=r"dense\.device is gpu, but .*: install faiss-gpu"):
        Collection.open(root, "c", dense=DenseSettings(device="gpu"))


# --------------------------------------------------------------------------- reading


def test_an_earlier_generation_is_as_it_was(root: Path) -> None:
    before, now = Collection.open(root, "c", generation=1), Collection.open(root, "c")
    assert [collection.document("d1").text for collection in (before, now)] == [
        "river bridge / lake\n\ncastle",
        "winter",
    ]
    assert [len(collection.search(ask("castle"))["sparse"]) for collection in (before, now)] == [6, 5]


def test_records_are_fetched_in_the_order_asked(root: Path) -> None:
    collection = Collection.open(root, "c")
    wanted = ["d5#2", "e#1", "d0#1", "d1#1", "d0#1"]
    stored = collection.fetch(wanted)
    assert [item.record.id for item in stored] == wanted
    assert stored[0].record == Record("d5#2", "d5", ("castle",), "value of castle", (2,))
    assert stored[0].document.title == "About d5"
    assert stored[0].document.metadata == {"year": 1900}
    assert [(unit.number, unit.text, unit.section) for unit in stored[0].units] == [
        (2, "castle", ("Top", "§2"))
    ]
    assert stored[3].record.keys == ("winter",)
    assert collection.units("d5") == make_entry("d5", [["river bridge", "lake"], ["castle"]]).built.units
    assert collection.fetch([]) == ()


def test_what_is_dead_or_unknown_can_not_be_fetched(root: Path) -> None:
    collection = Collection.open(root, "c")
    with pytest.raises(NotFoundError, match="no record 'd1#2'") as caught:
        collection.fetch(["e#1", "d1#2"])
    assert caught.value.field == "record_ids"
    for read in (collection.document, collection.units, collection.records):
        with pytest.raises(NotFoundError, match="no document 'copy'") as caught:
            read("copy")
        assert caught.value.field == "document"


def test_an_analysis_is_of_the_living(root: Path) -> None:
    analysis = Collection.open(root, "c", legs=()).analysis(len)
    assert (analysis.counts.documents, analysis.counts.records, analysis.counts.keys) == (7, 12, 17)
    assert (analysis.kinds, analysis.pointers.single) == ({RecordKind.MARKER: 12}, 12)


def test_a_query_that_can_not_be_answered_is_refused_by_its_field(root: Path) -> None:
    collection = Collection.open(root, "c", legs=("dense",))
    bad = np.full(16, np.nan, np.float32)
    for query, name in (
        (Query("river", 1, ("sparse",)), "legs"),
        (Query("river", 1, ("dense",)), "vector"),
        (Query("river", 1, ("dense",), vector_of("river")[:3]), "vector"),
        (Query("river", 1, ("dense",), bad), "vector"),
        (Query("river", 0, ("dense",), vector_of("river")), "depth"),
    ):
        with pytest.raises(InputError) as caught:
            collection.search(query)
        assert caught.value.field == name


def test_threads_may_search_at_once_and_end(root: Path) -> None:
    collection = Collection.open(root, "c")
    expected = collection.search(ask("river castle winter"))
    found = []

    def work() -> None:
        for _ in range(20):
            found.append(collection.search(ask("river castle winter")))
            collection.fetch(["d0#1", "e#1"])

    for _ in range(3):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [expected] * 240


def test_keys_and_units_are_searched_by_threads_at_once_and_closed(tmp_path: Path) -> None:
    entries = [with_units(make_entry(f"d{number}", [["river bridge"], ["castle"]])) for number in range(6)]
    add(tmp_path, "c", entries, shards=2, stamp=STAMP_WITH_UNITS)
    collection = Collection.open(tmp_path, "c")
    query = ask("river castle", unit_weight=1.0)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(collection.search, [query] * 40))
    assert found == [found[0]] * 40
    collection.close()
    with pytest.raises(MragError):
        collection.search(query)


def test_a_closed_collection_can_not_be_searched(root: Path) -> None:
    collection = Collection.open(root, "c")
    collection.close()
    collection.close()
    with pytest.raises(MragError):
        collection.search(ask("river"))
    with pytest.raises(NotFoundError):
        collection.fetch(["d0#1"])

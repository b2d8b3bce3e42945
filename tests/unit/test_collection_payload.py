"""What a shard returns is what was stored, and reading a little reads little."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.collection import Counts, ShardEntry
from mrag.collection.ids import IdIndex, stable_hash
from mrag.collection.payload import Payload
from mrag.collection.payload_form import byte_offsets
from mrag.collection.payload_writing import PayloadWriter
from mrag.errors import CollectionError
from mrag.schema import Built, Coverage, Document, Heading, Record, RecordKind, SourceUnit
from tests.collection_corpus import make_entry, make_pointed


def write(folder: Path, entries: list[ShardEntry]) -> Payload:
    writer = PayloadWriter(folder)
    for entry in entries:
        built = entry.built
        keys = sum(len(record.keys) for record in built.records)
        writer.add(built, "hash", Counts(1, len(built.units), len(built.records), keys, keys, 7))
    writer.close()
    return Payload(folder)


@given(st.text(), st.data())
def test_byte_offsets_cut_the_same_text_as_characters(text: str, data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, len(text)), min_size=2))
    found = byte_offsets(text, places)
    start, end = sorted(places[:2])
    assert text.encode()[found[start] : found[end]].decode() == text[start:end]


@given(st.lists(st.text(), unique=True), st.lists(st.text()))
def test_rows_are_found_by_id(ids: list[str], asked: list[str]) -> None:
    hashes = pa.array(map(stable_hash, ids), pa.uint64()).to_numpy()
    index = IdIndex(hashes, ids.__getitem__)
    expected = [ids.index(one) if one in ids else -1 for one in [*asked, *ids]]
    assert index.find([*asked, *ids]).tolist() == expected


def test_ids_of_one_hash_are_told_apart() -> None:
    ids = ["x", "a", "b"]
    hashes = pa.array([1, stable_hash("b"), stable_hash("b")], pa.uint64()).to_numpy()
    assert IdIndex(hashes, ids.__getitem__).find(["b", "a"]).tolist() == [2, -1]


def test_everything_comes_back(tmp_path: Path) -> None:
    text = "Ünïcode 😀 heading\n\nFirst 日本 part.\n\nSecond."
    document = Document(
        "doc/ü",
        text,
        "Títle",
        {"n": 1.5, "list": [None, True], "s": "é\ud800"},
        (Heading(0, 17, 1, "Ünïcode"),),
        (0, 18),
    )
    units = (
        SourceUnit("doc/ü", 1, 19, 34, text[19:34], ("A", "B"), 2),
        SourceUnit("doc/ü", 2, 25, 43, text[25:43]),
    )
    records = (
        Record("r1", "doc/ü", ("k1", "k2"), "v\x00", (1, 2), RecordKind.FALLBACK),
        Record("r2", "doc/ü", ("k3",), "", (), RecordKind.CHUNK),
    )
    entry = ShardEntry(Built(document, units, records, Coverage(2, 2, 0)), (), None)  # type: ignore[arg-type]
    payload = write(tmp_path, [make_entry("before", [["a"]]), entry, make_entry("after", [["b"], ["c"]])])
    row = int(payload.documents.index.find(["doc/ü"])[0])
    assert payload.document(row) == document
    assert payload.units(row) == units
    assert payload.units(row, (2,)) == units[1:]
    assert payload.records(row) == records
    assert [payload.document_of(record) for record in range(5)] == [0, 1, 1, 2, 2]


def test_documents_without_units_or_records_are_kept(tmp_path: Path) -> None:
    empty = [make_entry(name, []) for name in ("e1", "e2", "e3")]
    payload = write(tmp_path, [empty[0], make_entry("d", [["a"], ["b"]]), *empty[1:]])
    assert [payload.document_of(row) for row in (0, 1)] == [1, 1]
    assert [len(payload.units(row)) for row in range(4)] == [0, 2, 0, 0]


def test_many_batches_are_one_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrag.collection.payload_writing.BATCH_CHARACTERS", 100)
    entries = [make_entry(f"d{number}", [[f"key {number}", "other"], ["third"]]) for number in range(50)]
    payload = write(tmp_path, entries)
    assert payload.documents.table.column("id").num_chunks > 5
    for row, entry in enumerate(entries):
        assert payload.document(row) == entry.built.document
        assert payload.units(row) == entry.built.units
        assert payload.records(row) == entry.built.records


def test_opening_and_fetching_copy_no_values(tmp_path: Path) -> None:
    big = "x" * (8 << 20)
    write(tmp_path, [make_entry(f"d{number}", [["key"]], text=big) for number in range(4)])
    before = pa.total_allocated_bytes()
    payload = Payload(tmp_path)
    payload.record_index.find(["d2#1"])
    payload.info(2)
    assert pa.total_allocated_bytes() - before < 1 << 16


def test_a_unit_reads_no_more_of_its_document_than_itself(tmp_path: Path) -> None:
    """Bytes that are no text are noticed where they are asked for, and only there."""
    entry = make_entry("d", [["the first unit"], ["the second unit"]])
    write(tmp_path, [make_entry("before", [["x"]]), entry])
    path = tmp_path / "documents.arrow"
    path.write_bytes(path.read_bytes().replace(b"the second unit", b"the sec\xffnd unit"))
    payload = Payload(tmp_path)
    assert payload.units(1, [1]) == entry.built.units[:1]
    with pytest.raises(CollectionError, match="can't be understood"):
        payload.units(1, [2])
    with pytest.raises(CollectionError, match="can't be understood"):
        payload.document(1)


def test_units_of_a_damaged_text_are_units_or_refused(tmp_path: Path) -> None:
    write(tmp_path, [make_entry(f"d{number}", [["the first"], ["the second"]]) for number in range(4)])
    path, refused = tmp_path / "documents.arrow", 0
    content = path.read_bytes()
    for place in range(0, len(content), 3):
        flipped = bytearray(content)
        flipped[place] ^= 0x81
        path.write_bytes(flipped)
        try:
            payload = Payload(tmp_path)
            for row in range(4):
                assert len(payload.units(row)) == len(list(payload.unit_texts(row))) == 2
        except CollectionError:
            refused += 1
    assert refused


@pytest.mark.parametrize("name", ["documents", "units", "records"])
def test_a_file_that_is_not_arrow_is_refused_by_name(tmp_path: Path, name: str) -> None:
    write(tmp_path, [make_entry("d", [["a"]])])
    for content in (b"", b"ARROW1 no more"):
        (tmp_path / f"{name}.arrow").write_bytes(content)
        with pytest.raises(CollectionError, match=rf"{name}\.arrow is no readable Arrow file"):
            Payload(tmp_path)


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    for name, entries in (("one", [["a"]]), ("two", [["a"], ["b"]])):
        (tmp_path / name).mkdir()
        write(tmp_path / name, [make_entry("d", entries)])
    (tmp_path / "two" / "units.arrow").replace(tmp_path / "one" / "units.arrow")
    with pytest.raises(CollectionError, match=r"units\.arrow has 2 rows instead of 1"):
        Payload(tmp_path / "one")
    (tmp_path / "one" / "records.arrow").replace(tmp_path / "one" / "units.arrow")
    with pytest.raises(CollectionError, match="has other columns"):
        Payload(tmp_path / "one")


def test_flipped_pointers_stay_within_their_document_or_are_refused(tmp_path: Path) -> None:
    entries = [make_pointed(f"d{n}", ["a", "b"], [(["k"], (1,)), (["l"], (1, 2))]) for n in range(9)]
    records, units = write(tmp_path, entries).pointed()
    assert records.tolist() == [2 * (row // 3) + (row % 3 > 0) for row in range(27)]
    assert units.tolist() == [2 * (row // 3) + (row % 3 == 2) for row in range(27)]
    path, refused = tmp_path / "records.arrow", 0
    content = path.read_bytes()
    for place in range(0, len(content), 3):
        flipped = bytearray(content)
        flipped[place] ^= 0x81
        path.write_bytes(flipped)
        try:
            found, pointed = Payload(tmp_path).pointed()
            assert (pointed // 2 == found // 2).all()
            assert set(found.tolist()) == set(range(18))
        except CollectionError:
            refused += 1
    assert refused

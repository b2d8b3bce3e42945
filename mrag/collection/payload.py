"""What a shard returns: documents, units and records as Arrow files, memory-mapped and read row by row.

Documents stand in the order of writing; the units and the records of one document stand together, in its
order. A unit's text is a slice of its document's: the offsets are kept in characters and in bytes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mrag.collection.ids import IdIndex, Rows
from mrag.collection.manifest import Counts
from mrag.collection.payload_form import COUNTED, SCHEMAS, USED
from mrag.collection.storage import damaged, understood
from mrag.schema import (
    Built,
    Coverage,
    Document,
    DocumentInfo,
    Heading,
    Record,
    RecordKind,
    SourceUnit,
    Usage,
)


class DocumentTable:
    """`documents.arrow` alone: who is there, and how much there is of each. Texts are not read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.table = _mapped(folder / "documents.arrow", SCHEMAS["documents"])
        self.index = IdIndex(_numbers(self.table, "id_hash"), self._id)

    def _id(self, row: int) -> str:
        with understood(self._folder):
            return str(self.table.column("id")[row])

    def content_hashes(self) -> dict[str, str]:
        """Of every document by its id, the dead included."""
        with understood(self._folder):
            ids, hashes = (self.table.column(name).to_pylist() for name in ("id", "content_hash"))
            return dict(zip(ids, hashes, strict=True))

    def counts(self, rows: Rows) -> Counts:
        """How much the documents of these rows have together."""
        sums = {name: int(_numbers(self.table, name)[rows].sum()) for name in COUNTED}
        return Counts(documents=len(rows), **sums)

    def used(self, live: NDArray[np.bool_]) -> Usage:
        """What the live documents cost of a language model, in the run that wrote them or before it."""
        return Usage(*(int(_numbers(self.table, name)[live].sum()) for name in USED))

    def rejected(self, live: NDArray[np.bool_]) -> Counter[str]:
        """How many parts of replies were rejected for the live documents, by reason."""
        found: Counter[str] = Counter()
        with understood(self._folder):
            for chunk in self.table.column("rejected").filter(pa.array(live)).chunks:
                for reason, count in zip(chunk.keys.to_pylist(), chunk.items.to_pylist(), strict=True):
                    found[reason] += count
        return found

    def starts(self, name: str) -> Rows:
        """The first row of each document among units, records or keys, and the end: (n + 1,)."""
        return starts(_numbers(self.table, name))


class Payload:
    """The three files of a shard. Opening reads hashes and counts, no text; a row costs a few pages."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.documents = DocumentTable(folder)
        self._units = _mapped(folder / "units.arrow", SCHEMAS["units"])
        self._records = _mapped(folder / "records.arrow", SCHEMAS["records"])
        self.record_index = IdIndex(_numbers(self._records, "id_hash"), self.record_id)
        self.first_unit = self.documents.starts("units")
        self.first_record = self.documents.starts("records")
        self.first_key = starts(_list_lengths(self._records.column("keys")))
        self._agree(folder)

    def _agree(self, folder: Path) -> None:
        for name, table, ends in (
            ("units", self._units, self.first_unit),
            ("records", self._records, self.first_record),
        ):
            if table.num_rows != ends[-1]:
                raise damaged(folder / f"{name}.arrow", f"has {table.num_rows} rows instead of {ends[-1]}")
        keys = self.documents.starts("keys")[-1]
        if self.first_key[-1] != keys:
            raise damaged(folder / "records.arrow", f"has {self.first_key[-1]} keys instead of {keys}")
        if any((np.diff(ends) < 0).any() for ends in (self.first_unit, self.first_record, self.first_key)):
            raise damaged(folder, "has a row that counts less than nothing")

    def record_id(self, row: int) -> str:
        """The id of one record."""
        with understood(self._folder):
            return str(self._records.column("id")[row])

    def record_ids(self, rows: Rows) -> list[str]:
        """The ids of some records, in the order of their rows: one read, hardly dearer than one id."""
        with understood(self._folder):
            ids: list[str] = self._records.column("id").take(pa.array(rows)).to_pylist()
        return ids

    def pointed(self) -> tuple[Rows, Rows]:
        """For each pointer, record by record, the rows of its record and unit; reads the whole column.

        Raises CollectionError for a record without a pointer, or with one out of its document.
        """
        column = self._records.column("pointers")
        with understood(self._folder):
            column.validate(full=True)
            lengths, numbers = _list_lengths(column), pc.list_flatten(column).to_numpy()
            records = np.repeat(np.arange(len(column)), lengths)
            documents = np.searchsorted(self.first_record, records, "right") - 1
            units = self.first_unit[documents] + numbers - 1
            if (lengths < 1).any() or (numbers < 1).any() or (units >= self.first_unit[documents + 1]).any():
                raise damaged(self._folder / "records.arrow", "has a pointer to none of its source units")
        return records, units

    def records(self, row: int) -> tuple[Record, ...]:
        """The records of the document in `row`, as they were written."""
        return tuple(map(self.record, range(*self.first_record[row : row + 2])))

    def record(self, row: int) -> Record:
        """One record, as it was written."""
        with understood(self._folder):
            values = _row(self._records, row)
            return Record(
                id=values["id"],
                document_id=values["document"],
                keys=tuple(values["keys"]),
                value=values["value"],
                pointers=tuple(values["pointers"]),
                kind=RecordKind(values["kind"]),
            )

    def document_of(self, record_row: int) -> int:
        """The row of the document that a record belongs to."""
        return int(np.searchsorted(self.first_record, record_row, "right")) - 1

    def info(self, row: int) -> DocumentInfo:
        """A document without its text."""
        with understood(self._folder):
            values = _row(self.documents.table.select(["id", "title", "metadata"]), row)
            return DocumentInfo(values["id"], values["title"], json.loads(values["metadata"]))

    def document(self, row: int) -> Document:
        """A document as it was written."""
        info = self.info(row)
        with understood(self._folder):
            values = _row(self.documents.table.select(["text", "headings", "pages"]), row)
            headings = tuple(Heading(**heading) for heading in values["headings"])
            pages = tuple(values["pages"])
        return Document(info.id, values["text"], info.title, info.metadata, headings, pages)

    def built(self, row: int) -> Built:
        """All of the document in `row`, as it was written; `usage` is what it cost in whatever run."""
        with understood(self._folder):
            values = _row(self.documents.table.select([*USED, "rejected"]), row)
            usage, rejected = Usage(*(values[name] for name in USED)), dict(values["rejected"])
        units, records = self.units(row), self.records(row)
        return Built(self.document(row), units, records, _coverage(units, records), usage, rejected)

    def units(self, row: int, numbers: Iterable[int] | None = None) -> tuple[SourceUnit, ...]:
        """Source units of the document in `row`: all of them, or those of these numbers (from 1)."""
        first, end = (int(bound) for bound in self.first_unit[row : row + 2])
        rows = range(first, end) if numbers is None else [first + number - 1 for number in numbers]
        with understood(self._folder):
            text = self._text(row)
            return tuple(self._unit(unit, text) for unit in rows)

    def _text(self, row: int) -> Any:
        """Its bounds are looked at, not its characters: of a long text few are asked for, by `_cut`."""
        column = self.documents.table.column("text").slice(row, 1)
        column.validate()
        return column[0].as_buffer()

    def _unit(self, row: int, text: Any) -> SourceUnit:
        values = _row(self._units, row)
        return SourceUnit(
            document_id=values["document"],
            number=values["number"],
            start=values["start"],
            end=values["end"],
            text=_cut(text, values["start_byte"], values["end_byte"]),
            section=tuple(values["section"]),
            page=values["page"],
        )

    def record_batches(self) -> Iterator[tuple[int, Any]]:
        """The records as Arrow batches of some megabytes, each with the row of its first record."""
        first = 0
        with understood(self._folder):
            for batch in self._records.to_batches():
                batch.validate(full=True)
                yield first, batch
                first += batch.num_rows

    def unit_texts(self, row: int) -> Iterator[str]:
        """The texts of all source units of the document in `row`, in order, and nothing else of them."""
        first, end = (int(bound) for bound in self.first_unit[row : row + 2])
        units = self._units.slice(first, end - first)
        with understood(self._folder):
            text = self._text(row)
            for start, stop in zip(_numbers(units, "start_byte"), _numbers(units, "end_byte"), strict=True):
                yield _cut(text, int(start), int(stop))


def _coverage(units: Sequence[SourceUnit], records: Iterable[Record]) -> Coverage:
    pointed: dict[bool, set[int]] = {False: set(), True: set()}
    for record in records:
        pointed[record.kind is RecordKind.FALLBACK].update(record.pointers)
    return Coverage(len(units), len(pointed[False]), len(pointed[True] - pointed[False]))


def _cut(text: Any, start: int, end: int) -> str:
    # Arrow does not look whether a slice ends within its buffer.
    if not 0 <= start <= end <= text.size:
        raise ValueError(f"bytes {start} to {end} of {text.size}")
    return str(text.slice(start, end - start).to_pybytes(), "utf-8")


def _mapped(path: Path, schema: pa.Schema) -> pa.Table:
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        table.validate()
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, f"is no readable Arrow file ({' '.join(str(error).split())})") from None
    if not table.schema.equals(schema):
        raise damaged(path, "has other columns than this mrag writes")
    return table


def _row(table: pa.Table, row: int) -> dict[str, Any]:
    one = table.slice(row, 1)
    # Offsets that point anywhere would be followed.
    one.validate(full=True)
    values: list[dict[str, Any]] = one.to_pylist()
    return values[0]


def _numbers(table: pa.Table, name: str) -> NDArray[Any]:
    values: NDArray[Any] = table.column(name).to_numpy()
    return values


def _list_lengths(column: pa.ChunkedArray) -> Rows:
    lengths: Rows = pc.list_value_length(column).to_numpy().astype(np.int64)
    return lengths


def starts(lengths: Sequence[int] | NDArray[Any]) -> Rows:
    """Where each of some neighbours of these lengths begins, and where the last one ends: (n + 1,)."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

"""Writing what a shard returns: documents, units and records as Arrow files, in their order."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from mrag.collection.ids import stable_hash
from mrag.collection.manifest import Counts
from mrag.collection.payload_form import COUNTED, SCHEMAS, USED, byte_offsets, storable
from mrag.schema import Built, Record, SourceUnit

BATCH_CHARACTERS = 1 << 24


class PayloadWriter:
    """Writes the three files of a shard, in batches of some megabytes."""

    def __init__(self, folder: Path) -> None:
        self._files: dict[str, Any] = {}
        with ExitStack() as opened:
            for name, schema in SCHEMAS.items():
                file = opened.enter_context(pa.OSFile(str(folder / f"{name}.arrow"), "wb"))
                self._files[name] = opened.enter_context(pa.ipc.new_file(file, schema))
            self._opened = opened.pop_all()
        self._rows: dict[str, list[dict[str, Any]]] = {name: [] for name in SCHEMAS}
        self._characters = 0

    def add(self, built: Built, content_hash: str, counts: Counts) -> None:
        """One document with all that was built of it; `counts` are its own."""
        document = _document_row(built, content_hash, counts)
        self._rows["documents"].append(document)
        self._rows["units"] += _unit_rows(built.units, document["text"])
        self._rows["records"] += map(_record_row, built.records)
        self._characters += len(document["text"])
        self._characters += sum(len(record.value) + sum(map(len, record.keys)) for record in built.records)
        if self._characters >= BATCH_CHARACTERS:
            self._flush()

    def close(self) -> None:
        """Writes what is left and ends the files. After an error of one all are closed too."""
        with self._opened:
            self._flush()

    def _flush(self) -> None:
        for name, rows in self._rows.items():
            if rows:
                self._files[name].write_batch(pa.RecordBatch.from_pylist(rows, SCHEMAS[name]))
                rows.clear()
        self._characters = 0


def _document_row(built: Built, content_hash: str, counts: Counts) -> dict[str, Any]:
    document = built.document
    return {
        "id": document.id,
        "id_hash": stable_hash(document.id),
        "content_hash": content_hash,
        "title": storable(document.title),
        "metadata": json.dumps(dict(document.metadata)),
        "text": storable(document.text),
        "headings": [{**vars(heading), "text": storable(heading.text)} for heading in document.headings],
        "pages": document.pages,
        **{name: getattr(counts, name) for name in COUNTED},
        **{name: getattr(built.usage + built.reused, name) for name in USED},
        "rejected": list(built.rejected.items()),
    }


def _unit_rows(units: Sequence[SourceUnit], text: str) -> Iterable[dict[str, Any]]:
    byte = byte_offsets(text, (offset for unit in units for offset in (unit.start, unit.end)))
    for unit in units:
        yield {
            "document": unit.document_id,
            "number": unit.number,
            "start": unit.start,
            "end": unit.end,
            "start_byte": byte[unit.start],
            "end_byte": byte[unit.end],
            "section": [storable(part) for part in unit.section],
            "page": unit.page,
        }


def _record_row(record: Record) -> dict[str, Any]:
    return {
        "id": record.id,
        "id_hash": stable_hash(record.id),
        "document": record.document_id,
        "keys": [storable(key) for key in record.keys],
        "value": storable(record.value),
        "pointers": record.pointers,
        "kind": record.kind.value,
    }

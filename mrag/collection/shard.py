"""Shards opened for reading: what they hold, and what is live of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mrag.collection.dense import DensePart
from mrag.collection.ids import Rows
from mrag.collection.manifest import ShardInfo
from mrag.collection.payload import Payload, starts
from mrag.collection.sparse import SparsePart
from mrag.collection.storage import damaged
from mrag.schema import Hit, Stored


class Shard:
    """A shard without its `dead` documents (ids, of which it need not hold all)."""

    def __init__(self, folder: Path, info: ShardInfo, dead: list[str]) -> None:
        self.folder = folder
        self.info = info
        self.payload = Payload(folder)
        held = self.payload.documents.counts(np.arange(self.payload.documents.table.num_rows))
        if held != info.counts:
            raise damaged(folder, f"holds {held} instead of {info.counts}")
        rows = self.payload.documents.index.find(dead)
        self._dead = {int(row) for row in rows[rows >= 0]}
        self.live_documents = np.ones(info.counts.documents, np.bool_)
        self.live_records = np.ones(info.counts.records, np.bool_)
        for row in self._dead:
            self.live_documents[row] = False
            self.live_records[slice(*self.payload.first_record[row : row + 2])] = False

    @property
    def dense_part(self) -> DensePart:
        """What the dense leg has to know of this shard."""
        return DensePart(self.folder, np.repeat(self.live_records, np.diff(self.payload.first_key)))

    @property
    def sparse_part(self) -> SparsePart:
        """What the sparse leg has to know of this shard."""
        return SparsePart(self.folder, sorted(self._dead))

    def find_record(self, record_id: str) -> int:
        """The row of a live record, or -1."""
        row = int(self.payload.record_index.find([record_id])[0])
        return row if row >= 0 and self.live_records[row] else -1

    def find_document(self, document_id: str) -> int:
        """The row of a live document, or -1."""
        row = int(self.payload.documents.index.find([document_id])[0])
        return -1 if row in self._dead else row

    def stored(self, row: int) -> Stored:
        """The record in a row, with its document and the units it points to."""
        record, document = self.payload.record(row), self.payload.document_of(row)
        return Stored(record, self.payload.info(document), self.payload.units(document, record.pointers))


class KeySpace:
    """The keys of several shards as one range of rows, which both legs number in the same order."""

    def __init__(self, shards: Iterable[Shard]) -> None:
        self._shards = tuple(shards)
        self._first_key = starts([shard.info.counts.keys for shard in self._shards])
        self._first_record = starts([shard.info.counts.records for shard in self._shards])

    def __iter__(self) -> Iterator[Shard]:
        return iter(self._shards)

    @property
    def keys(self) -> int:
        """The number of rows, the dead included."""
        return int(self._first_key[-1])

    def owners(self, rows: Rows) -> Rows:
        """A number for the record of each key row, -1 where it is dead."""
        owners = np.full(len(rows), -1, np.int64)
        places = self._places(rows)
        for place in np.unique(places):
            shard, here = self._shards[place], places == place
            records = shard.payload.record_of(rows[here] - self._first_key[place])
            owners[here] = np.where(shard.live_records[records], records + self._first_record[place], -1)
        return owners

    def hit(self, score: float, row: int) -> Hit:
        """What is found at a key row."""
        place = int(self._places(row))
        payload, key = self._shards[place].payload, row - self._first_key[place]
        record = int(payload.record_of(key))
        return Hit(payload.record_id(record), float(score), int(key - payload.first_key[record]))

    def _places(self, rows: Any) -> Any:
        return np.searchsorted(self._first_key, rows, "right") - 1

"""Shards opened for reading: what they hold, and what is live of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrag.collection import dense, sparse
from mrag.collection.dense import DensePart
from mrag.collection.ids import Rows
from mrag.collection.manifest import Counts, ShardInfo
from mrag.collection.payload import Payload, starts
from mrag.collection.pointing import Pointing
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
        self.live_documents[list(self._dead)] = False
        self.live_records = self._live(self.payload.first_record)

    def _live(self, first: Rows) -> NDArray[np.bool_]:
        """Which of some rows live; `first` has the first row of each document, and the end."""
        return np.repeat(self.live_documents, np.diff(first))

    @property
    def live_counts(self) -> Counts:
        """How much there is of its live documents."""
        return self.payload.documents.counts(np.flatnonzero(self.live_documents))

    @property
    def dense_keys(self) -> DensePart:
        """What the dense leg has to know of this shard's keys."""
        live = np.repeat(self.live_records, np.diff(self.payload.first_key))
        return DensePart(self.folder, live, dense.KEYS, self.info.kind(dense.KEYS))

    @property
    def dense_units(self) -> DensePart:
        """What the dense leg has to know of its source units."""
        live = self._live(self.payload.first_unit)
        return DensePart(self.folder, live, dense.UNITS, self.info.kind(dense.UNITS))

    @property
    def sparse_keys(self) -> SparsePart:
        """What the sparse leg has to know of its keys."""
        return SparsePart(self.folder, sorted(self._dead))

    @property
    def sparse_units(self) -> SparsePart:
        """What the sparse leg has to know of its source units."""
        return SparsePart(self.folder, sorted(self._dead), sparse.UNITS)

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


class RecordSpace:
    """The records of several shards as one range of rows, likewise their keys and units, as in both legs."""

    def __init__(self, shards: Iterable[Shard]) -> None:
        self.shards = tuple(shards)
        self.live = _joined([shard.live_records for shard in self.shards], np.bool_)
        self.first_key = starts(_joined([np.diff(shard.payload.first_key) for shard in self.shards]))
        self._first = starts([shard.info.counts.records for shard in self.shards])

    @property
    def keys(self) -> int:
        """The number of keys, the dead included."""
        return int(self.first_key[-1])

    @property
    def units(self) -> int:
        """The number of source units, the dead included."""
        return sum(shard.info.counts.units for shard in self.shards)

    def owners(self, admitted: NDArray[np.bool_], keys: Rows) -> tuple[Rows, Rows]:
        """The records of some keys that are admitted (n,), each with its key's place among them."""
        records = np.searchsorted(self.first_key, keys, "right") - 1
        places = np.flatnonzero(admitted[records])
        return places, records[places]

    def pointing(self) -> Pointing:
        """Which records point to which units; reads the pointers of all of them."""
        pairs = [shard.payload.pointed() for shard in self.shards]
        first_unit = starts([shard.info.counts.units for shard in self.shards])
        records = [rows + first for (rows, _), first in zip(pairs, self._first, strict=False)]
        units = [rows + first for (_, rows), first in zip(pairs, first_unit, strict=False)]
        return Pointing(_joined(records), _joined(units), self.units)

    def hits(self, scores: NDArray[np.float32], records: Rows, keys: Rows | None = None) -> list[Hit]:
        """What is found at some records, in their order, by the keys in these rows or none in particular."""
        numbers = repeat(None) if keys is None else (keys - self.first_key[records]).tolist()
        return list(map(Hit, self._ids(records), scores.tolist(), numbers))

    def _ids(self, records: Rows) -> list[str]:
        places = np.searchsorted(self._first, records, "right") - 1
        ids = np.empty(len(records), object)
        for place in np.unique(places):
            here = places == place
            ids[here] = self.shards[place].payload.record_ids(records[here] - self._first[place])
        return list(ids)


def _joined(parts: Sequence[NDArray[Any]], kind: type = np.int64) -> NDArray[Any]:
    return np.concatenate([np.empty(0, kind), *parts])

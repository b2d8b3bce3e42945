"""What a filter lets through of the records of some shards, found once and kept for the last filters."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrag.collection.filters import OWN_FIELDS, passing
from mrag.collection.shard import RecordSpace, Shard
from mrag.collection.sparse import Documents
from mrag.collection.storage import understood
from mrag.schema import DocumentInfo, Filter

REMEMBERED_FILTERS = 16


@dataclass(frozen=True, eq=False)
class Admitted:
    """Which records may be found: live ones (n,), and of a filter those of the documents that pass it.

    `keys` (m,) and `documents` are None where nothing but the dead is left out. `documents` are rows within
    their shards: a shard may hold a document of the same row that does not pass.
    """

    records: NDArray[np.bool_]
    keys: NDArray[np.bool_] | None = None
    documents: Documents | None = None


class Filtering:
    """What is admitted to a search of these records. Metadata is read when a filter is asked first."""

    def __init__(self, space: RecordSpace) -> None:
        self._everything = Admitted(space.live)
        self._remembered = lru_cache(REMEMBERED_FILTERS)(partial(_admitted, space))

    def admitted(self, filter_: Filter) -> Admitted:
        """Raises CollectionError for damaged metadata."""
        # In Python 1 == True: the spelling tells such filters apart.
        return self._remembered(filter_, repr(filter_)) if filter_ else self._everything


def _admitted(space: RecordSpace, filter_: Filter, _: str) -> Admitted:
    documents = [_passing(shard, filter_) for shard in space.shards]
    records = [
        np.repeat(passed, np.diff(shard.payload.first_record))
        for passed, shard in zip(documents, space.shards, strict=True)
    ]
    live = np.concatenate([np.empty(0, np.bool_), *records]) & space.live
    rows = [np.flatnonzero(passed) for passed in documents]
    return Admitted(
        live,
        np.repeat(live, np.diff(space.first_key)),
        Documents(np.unique(np.concatenate([np.empty(0, np.int64), *rows]))),
    )


def passing_ids(shard: Shard, filter_: Filter) -> list[str]:
    """Of the live documents that pass, in order. Raises CollectionError for damaged metadata."""
    passed = np.flatnonzero(_passing(shard, filter_))
    ids: list[str] = shard.payload.documents.table["id"].take(passed).to_pylist()
    return ids


def _passing(shard: Shard, filter_: Filter) -> NDArray[np.bool_]:
    """Which documents of a shard pass (n,); the dead do not."""
    passes = passing(filter_)
    fields = {condition.field for condition in filter_}
    found = (passes(document) for document in _documents(shard, fields))
    return np.fromiter(found, np.bool_, shard.info.counts.documents) & shard.live_documents


def _documents(shard: Shard, fields: set[str]) -> Iterator[DocumentInfo]:
    """The documents in order, with what the fields ask for and nothing else."""
    table = shard.payload.documents.table
    names = [name for name in OWN_FIELDS if name in fields]
    names += ["metadata"] if fields.difference(OWN_FIELDS) else []
    with understood(shard.folder):
        for batch in table.select(names).to_batches():
            batch.validate(full=True)
            yield from map(_document, batch.to_pylist())


def _document(values: Mapping[str, Any]) -> DocumentInfo:
    metadata = json.loads(values.get("metadata", "{}"))
    return DocumentInfo(values.get("id", ""), values.get("title", ""), metadata)

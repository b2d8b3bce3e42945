"""Writing one shard of a segment: all that is stored and searched of its documents."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from mrag.collection import dense as dense_leg
from mrag.collection import sparse as sparse_leg
from mrag.collection.contents import content_hash
from mrag.collection.dense import DenseWriter
from mrag.collection.ids import stable_hash
from mrag.collection.languages import AUTO, UNDETERMINED, detected
from mrag.collection.manifest import Counts, ShardInfo, VectorSearch, shard_folder
from mrag.collection.mirror import upload
from mrag.collection.payload_form import storable
from mrag.collection.payload_writing import PayloadWriter
from mrag.collection.sparse import SparseWriter
from mrag.collection.storage import atomic_folder, describe, writable
from mrag.collection.vector_recall import vector_search
from mrag.errors import DocumentError
from mrag.schema import Built, Document, Vectors
from mrag.settings import DenseSettings, SparseSettings


def shard_of(document_id: str, shards: int) -> int:
    """The shard, from 0, in which a document lives: a stable hash of its id."""
    return stable_hash(document_id) % shards


# --------------------------------------------------------------------------- one document


@dataclass(frozen=True)
class SearchedUnits:
    """What is searched of a document's source units, one by one: words of `texts`, rows of `vectors`."""

    texts: tuple[str, ...]
    vectors: Vectors


@dataclass(frozen=True)
class ShardEntry:
    """One document, ready to be written.

    `key_texts[i][j]` is searched for `built.records[i].keys[j]`; `vectors` has one row for each of them,
    record by record: float32 (sum of keys, dimension). `units` is None where only keys are searched.
    """

    built: Built
    key_texts: tuple[tuple[str, ...], ...]
    vectors: Vectors
    units: SearchedUnits | None = None

    def check(self) -> None:
        """Raises DocumentError, naming document and record, for what can't be stored or found again."""
        for fault in self._faults():
            raise DocumentError(f"Document {self.built.document.id!r} can't be stored: {fault}.")

    def _faults(self) -> Iterator[str]:
        document = self.built.document
        if not _is_utf8(document.id):
            yield "its id has a lone surrogate, which no file can hold"
        try:
            json.dumps(dict(document.metadata))
        except (TypeError, ValueError):
            yield "its metadata has a value that is not JSON"
        for number, unit in enumerate(self.built.units, start=1):
            if (unit.document_id, unit.number) != (document.id, number):
                yield f"source unit {number} is numbered {unit.number} of {unit.document_id!r}"
            if document.text[unit.start : unit.end] != unit.text:
                yield f"source unit {number} is not what stands at its offsets"
        yield from self._record_faults()

    def _record_faults(self) -> Iterator[str]:
        records, units = self.built.records, len(self.built.units)
        lengths = tuple(map(len, self.key_texts))
        if len({record.id for record in records}) < len(records):
            yield "two records have the same id"
        for record in records:
            if record.document_id != self.built.document.id:
                yield f"record {record.id!r} belongs to {record.document_id!r}"
            if not record.keys or not _is_utf8(record.id):
                yield f"record {record.id!r} has no key, or a lone surrogate in its id"
            if not _ascend(record.pointers, units) or (self.units and not record.pointers):
                yield f"record {record.id!r} points to {record.pointers} of {units} source units"
        if lengths != tuple(len(record.keys) for record in records):
            yield "there is not one text for each key of each record"
        if self.vectors.ndim != 2 or len(self.vectors) != sum(lengths):
            yield f"there are {len(self.vectors)} vectors for {sum(lengths)} keys"
        names = [
            f"key {key} of record {record.id!r}" for record in records for key in range(len(record.keys))
        ]
        yield from _vector_faults(self.vectors, names)
        yield from self._unit_faults(self.units) if self.units else ()

    def _unit_faults(self, searched: SearchedUnits) -> Iterator[str]:
        texts, vectors, units = searched.texts, searched.vectors, len(self.built.units)
        if (len(texts), vectors.ndim, len(vectors)) != (units, 2, units):
            yield f"there are {len(texts)} texts and {len(vectors)} vectors for {units} source units"
        if vectors.shape[1:] != self.vectors.shape[1:]:
            yield "the vectors of its source units have another dimension than those of its keys"
        yield from _vector_faults(vectors, [f"source unit {number + 1}" for number in range(units)])


def _vector_faults(vectors: Vectors, names: Sequence[str]) -> Iterator[str]:
    """Names the rows that are not finite or have no length."""
    lengths = np.linalg.norm(vectors, axis=1)
    for row in np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0))):
        yield f"the vector of {names[row]} is not finite or has no length"


def _is_utf8(text: str) -> bool:
    return storable(text) == text


def _ascend(pointers: Sequence[int], units: int) -> bool:
    within = (0, *pointers, units + 1)
    return all(one < other for one, other in pairwise(within))


# --------------------------------------------------------------------------- one shard


def write_segment_shard(
    root: Path,
    name: str,
    segment: str,
    shard: int,
    entries: Iterable[ShardEntry],
    dense: DenseSettings,
    sparse: SparseSettings,
) -> ShardInfo:
    """Writes one shard of a segment for all who see the root. Raises as `write_shard`, and StoreError."""
    folder = shard_folder(root, name, segment, shard)
    info = write_shard(folder, entries, dense, sparse)
    upload(root, folder, info.files)
    return info


def write_shard(
    folder: Path, entries: Iterable[ShardEntry], dense: DenseSettings, sparse: SparseSettings
) -> ShardInfo:
    """Writes the folder of one shard, whole or not at all; what an earlier attempt left there is replaced.

    Entries are taken one by one and are not kept, but for their vectors. Lone surrogates in texts become
    U+FFFD. Raises DocumentError for an entry that fails its check, and for a document that comes twice;
    CollectionError for a disk that is full or may not be written to.
    """
    with writable(folder), atomic_folder(folder) as temporary:
        with _ShardWriter(temporary, dense, sparse) as writer:
            for entry in entries:
                writer.add(entry)
        return ShardInfo(writer.counts, writer.keys.dimension, describe(temporary), writer.searches)


class _ShardWriter:
    """The writers of a shard, fed together. The first document says whether units are searched too."""

    def __init__(self, folder: Path, dense: DenseSettings, sparse: SparseSettings) -> None:
        self.counts = Counts()
        self._detected = sparse.language == AUTO
        self.keys = _TextWriter(folder, dense, sparse, dense_leg.KEYS, sparse_leg.KEYS)
        self._units = _TextWriter(folder, dense, sparse, dense_leg.UNITS, sparse_leg.UNITS)
        self._with_units: bool | None = None
        self._payload = PayloadWriter(folder)
        self._documents: set[str] = set()

    def __enter__(self) -> _ShardWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with ExitStack() as opened:
            for writer in (self.keys, self._units):
                opened.push(partial(writer.end, error))
            self._payload.close()

    @property
    def searches(self) -> tuple[VectorSearch, ...]:
        """By what vectors are searched where that is not simply `flat`; known at the end."""
        return tuple(writer.search for writer in (self.keys, self._units) if writer.search)

    def add(self, entry: ShardEntry) -> None:
        entry.check()
        for fault in self._faults(entry):
            raise DocumentError(f"Document {entry.built.document.id!r} can't be stored: {fault}.")
        row, language = self.counts.documents, self._language(entry.built.document)
        keys = self.keys.add(_flat(entry.key_texts), entry.vectors, row, language)
        units: list[int] = []
        if entry.units:
            units = self._units.add(entry.units.texts, entry.units.vectors, row, language)
        self._with_units = bool(entry.units)
        counts = _counts(entry.built, keys, units)
        self._payload.add(entry.built, content_hash(entry.built.document), counts)
        self._documents.add(entry.built.document.id)
        self.counts += counts

    def _language(self, document: Document) -> str:
        return detected(storable(document.text)) if self._detected else UNDETERMINED

    def _faults(self, entry: ShardEntry) -> Iterator[str]:
        if entry.built.document.id in self._documents:
            yield "it comes twice in one run"
        dimension, others = entry.vectors.shape[1], self.keys.dimension
        if others and len(entry.vectors) and dimension != others:
            yield f"its vectors have {dimension} dimensions and the others {others}"
        if self._with_units not in (None, bool(entry.units)):
            yield "its source units are searched and the others' are not, or the other way round"


class _TextWriter:
    """Both legs over one kind of text. Lucene starts with the first text."""

    def __init__(
        self,
        folder: Path,
        dense: DenseSettings,
        sparse: SparseSettings,
        dense_name: str,
        sparse_name: str,
    ) -> None:
        self.search: VectorSearch | None = None
        self._folder = folder
        self._dense = DenseWriter(dense_name, dense)
        self._vector_search = partial(vector_search, folder, dense_name, dense)
        self._start_sparse = partial(SparseWriter, folder, sparse, sparse_name)
        self._sparse: SparseWriter | None = None

    @property
    def dimension(self) -> int:
        """0 before the first text."""
        return self._dense.dimension

    def add(self, texts: Sequence[str], vectors: Vectors, document: int, language: str) -> list[int]:
        """Appends the texts of the document in that row; returns the number of words of each."""
        if not texts:
            return []
        self._sparse = self._sparse or self._start_sparse()
        self._dense.add(vectors)
        return self._sparse.add(map(storable, texts), document, language)

    def end(self, error: BaseException | None, *raised: Any) -> None:
        """Writes both legs; after an error, or one that was raised since (as `__exit__` has it), neither."""
        failed = error is not None or any(raised)
        if self._sparse:
            self._sparse.abandon() if failed else self._sparse.close()
        if not failed and (kind := self._dense.write(self._folder)):
            self.search = self._vector_search(kind, self._dense.shape)


def _flat(groups: Iterable[Iterable[str]]) -> list[str]:
    return [text for group in groups for text in group]


def _counts(built: Built, keys: list[int], units: list[int]) -> Counts:
    """`keys` and `units` are the numbers of words of each."""
    return Counts(
        documents=1,
        units=len(built.units),
        records=len(built.records),
        keys=len(keys),
        worded_keys=sum(number > 0 for number in keys),
        words=sum(keys),
        worded_units=sum(number > 0 for number in units),
        unit_words=sum(units),
    )

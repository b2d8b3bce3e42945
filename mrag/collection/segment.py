"""Writing one shard of a segment: all that is stored and searched of its documents."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType

import numpy as np

from mrag.collection.dense import DenseWriter
from mrag.collection.ids import stable_hash
from mrag.collection.manifest import Counts, ShardInfo
from mrag.collection.payload import PayloadWriter, storable
from mrag.collection.sparse import SparseWriter
from mrag.collection.storage import atomic_folder, describe, writable
from mrag.errors import DocumentError
from mrag.schema import Built, Document, Vectors
from mrag.settings import DenseSettings, SparseSettings


def shard_of(document_id: str, shards: int) -> int:
    """The shard, from 0, in which a document lives: a stable hash of its id."""
    return stable_hash(document_id) % shards


def content_hash(document: Document) -> str:
    """`<of the text>-<of title, metadata, headings, pages>`: another one if anything that is stored is other.

    Duplicates are equal up to the dash.
    """
    headings = [asdict(heading) for heading in document.headings]
    about = json.dumps([document.title, dict(document.metadata), headings, document.pages], sort_keys=True)
    return f"{_digest(document.text)}-{_digest(about)}"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


# --------------------------------------------------------------------------- one document


@dataclass(frozen=True)
class ShardEntry:
    """One document, ready to be written.

    `key_texts[i][j]` is searched for `built.records[i].keys[j]`; `vectors` has one row for each of them,
    record by record: float32 (sum of keys, dimension).
    """

    built: Built
    key_texts: tuple[tuple[str, ...], ...]
    vectors: Vectors

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
            if not _ascend(record.pointers, units):
                yield f"record {record.id!r} points to {record.pointers} of {units} source units"
        if lengths != tuple(len(record.keys) for record in records):
            yield "there is not one text for each key of each record"
        if self.vectors.ndim != 2 or len(self.vectors) != sum(lengths):
            yield f"there are {len(self.vectors)} vectors for {sum(lengths)} keys"
        yield from self._vector_faults()

    def _vector_faults(self) -> Iterator[str]:
        lengths = np.linalg.norm(self.vectors, axis=1)
        names = [(record.id, key) for record in self.built.records for key in range(len(record.keys))]
        for record, key in (names[row] for row in np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))):
            yield f"the vector of key {key} of record {record!r} is not finite or has no length"


def _is_utf8(text: str) -> bool:
    return storable(text) == text


def _ascend(pointers: Sequence[int], units: int) -> bool:
    within = (0, *pointers, units + 1)
    return all(one < other for one, other in pairwise(within))


# --------------------------------------------------------------------------- one shard


def write_shard(
    folder: Path, entries: Iterable[ShardEntry], dense: DenseSettings, sparse: SparseSettings
) -> ShardInfo:
    """Writes the folder of one shard, whole or not at all; what an earlier attempt left there is replaced.

    Entries are taken one by one and are not kept, but for their vectors. Lone surrogates in texts become
    U+FFFD. Raises DocumentError for an entry that fails its check, and for a document that comes twice;
    CollectionError for a disk that is full or may not be written to.
    """
    with writable(folder), atomic_folder(folder) as temporary:
        with _ShardWriter(temporary, sparse) as writer:
            for entry in entries:
                writer.add(entry)
        return ShardInfo(writer.counts, writer.dense.dimension, describe(temporary))


class _ShardWriter:
    """The three writers of a shard, fed together. Lucene starts with the first key."""

    def __init__(self, folder: Path, settings: SparseSettings) -> None:
        self.counts = Counts()
        self.dense = DenseWriter()
        self._folder, self._settings = folder, settings
        self._payload = PayloadWriter(folder)
        self._sparse: SparseWriter | None = None
        self._documents: set[str] = set()

    def __enter__(self) -> _ShardWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with ExitStack() as opened:
            opened.push(lambda _, fault, __: self._end_sparse(error or fault))
            self._payload.close()
        if error is None:
            self.dense.write(self._folder)

    def _end_sparse(self, error: BaseException | None) -> None:
        if self._sparse is not None and error is not None:
            self._sparse.abandon()
        elif self._sparse is not None:
            self._sparse.close()

    def add(self, entry: ShardEntry) -> None:
        entry.check()
        document = entry.built.document
        if document.id in self._documents:
            raise DocumentError(f"Document {document.id!r} can't be stored: it comes twice in one run.")
        if self.dense.dimension and len(entry.vectors) and entry.vectors.shape[1] != self.dense.dimension:
            raise DocumentError(
                f"Document {document.id!r} can't be stored: its vectors have {entry.vectors.shape[1]} "
                f"dimensions and the others {self.dense.dimension}."
            )
        words = self._index([storable(text) for texts in entry.key_texts for text in texts])
        if words:
            self.dense.add(entry.vectors)
        self._payload.add(entry.built, content_hash(document), counts := _counts(entry.built, words))
        self._documents.add(document.id)
        self.counts += counts

    def _index(self, key_texts: list[str]) -> list[int]:
        if self._sparse is None and key_texts:
            self._sparse = SparseWriter(self._folder, self._settings)
        return self._sparse.add(key_texts, self.counts.documents) if self._sparse else []


def _counts(built: Built, words: list[int]) -> Counts:
    """`words` are those of each key."""
    worded = sum(number > 0 for number in words)
    return Counts(1, len(built.units), len(built.records), len(words), worded, sum(words))

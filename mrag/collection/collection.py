"""A collection opened for reading: the access path of M-RAG, one generation of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Thread
from weakref import finalize

import numpy as np

from mrag.collection.filtering import Filtering, passing_ids
from mrag.collection.index_analysis import IndexAnalysis, analyse
from mrag.collection.manifest import (
    WHOLE,
    Manifest,
    Part,
    existing_manifest,
    in_force,
)
from mrag.collection.mirror import drop_old, mended
from mrag.collection.searching import Searching, open_searches
from mrag.collection.segments import PAYLOAD, ShardsAtHand
from mrag.collection.shard import RecordSpace, Shard
from mrag.collection.sparse import SparseStatistics
from mrag.collection.storage import FileInfo
from mrag.collection.storage import verify as verify_files
from mrag.collection.vector_files import FINDERS
from mrag.collection.verified import compare_new
from mrag.errors import CollectionError, InputError, NotFoundError
from mrag.schema import Document, Filter, Hit, Leg, Query, Record, Searched, SourceUnit, Stored, Vectors
from mrag.settings import CollectionSettings, DenseSettings
from mrag.settings.storage import Verify

SMALL_BYTES = 64 << 20


class Collection:
    """One generation of a collection, immutable; every method may be called from several threads.

    It is closed when nobody holds it any more.
    """

    def __init__(self, manifest: Manifest, shards: Sequence[Shard], legs: tuple[Leg, ...]) -> None:
        self.manifest = manifest
        self._legs = legs
        self._shards = tuple(shards)
        self._searches: Mapping[Searched, Searching] = {}
        self._filtering: Filtering | None = None
        self._at_hand: ShardsAtHand | None = None
        self._end: finalize[..., Collection] | None = None

    @classmethod
    def open(
        cls,
        root: Path,
        name: str,
        *,
        generation: int | None = None,
        verify: Verify | None = None,
        encoder_fingerprint: str | None = None,
        dense: DenseSettings | None = None,
        legs: tuple[Leg, ...] = ("dense", "sparse"),
        part: Part = WHOLE,
    ) -> Collection:
        """Opens the generation in force, or an earlier one, for searching by these legs.

        A `part` holds its shards and no other: its sparse scores are the collection's if `search` is given
        the sum of all parts' `statistics`.
        `verify` compares sizes (`fast`) or all bytes (`full`) with the manifest; by default all bytes of what
        has up to 64 MiB or was not compared on this machine before.
        Give the fingerprint of the encoder that will encode the queries. Raises NotFoundError (field
        `collection` or `generation`), CollectionError for whatever is damaged or does not fit, and
        SettingsError for a GPU that FAISS can't use.
        """

        def opened(manifest: Manifest) -> Collection:
            return cls._opened(root, manifest, verify, encoder_fingerprint, dense, legs, part)

        if generation is None:
            newest = in_force(root, name, opened)
            drop_old(root, name, {segment.id for segment in newest.manifest.segments})
            return newest
        return opened(existing_manifest(root, name, generation))

    @classmethod
    def at(
        cls,
        place: CollectionSettings,
        *,
        encoder_fingerprint: str | None = None,
        dense: DenseSettings | None = None,
        legs: tuple[Leg, ...] = ("dense", "sparse"),
    ) -> Collection:
        """Opens what the settings name, at their generation if they have one. Raises as `open` does."""
        return cls.open(
            place.root,
            place.name,
            generation=place.generation,
            verify=place.verify,
            encoder_fingerprint=encoder_fingerprint,
            dense=dense,
            legs=legs,
        )

    @classmethod
    def _opened(
        cls,
        root: Path,
        manifest: Manifest,
        verify: Verify | None,
        encoder_fingerprint: str | None,
        dense: DenseSettings | None,
        legs: tuple[Leg, ...],
        part: Part,
    ) -> Collection:
        name = manifest.name
        if encoder_fingerprint not in (None, manifest.stamp.encoder):
            raise CollectionError(
                f"Collection {name!r} is encoded by {manifest.stamp.encoder!r}, not by "
                f"{encoder_fingerprint!r}: set that encoder, or index the collection anew."
            )
        at_hand = ShardsAtHand(root, manifest, part, ending="" if legs else PAYLOAD)
        folders = list(at_hand)
        small = sum(shard.bytes for _, shard, _ in folders) <= SMALL_BYTES
        how = "full" if verify is None and small else verify
        for _, shard, folder in folders:
            _verify(root, folder, at_hand.files(shard), how)
        shards = [Shard(path, info, manifest.dead(segment)) for segment, info, path in folders]
        collection = cls(manifest, shards, legs)
        collection._at_hand = at_hand
        searched = RecordSpace(shard for shard in shards if shard.info.counts.keys)
        if searched.keys and legs:
            collection._filtering = Filtering(searched)
            collection._searches = open_searches(searched, manifest, legs, dense or DenseSettings())
            collection._end = finalize(collection, _close_later, collection._searches, os.getpid())
            collection._end.atexit = False  # Then Java ends too.
        return collection

    # ----------------------------------------------------------------------- searching

    def search(
        self, query: Query, statistics: SparseStatistics | None = None
    ) -> Mapping[Leg, tuple[Hit, ...]]:
        """Per leg the `depth` best live records that pass the query's filter, or all of them; best first.

        Ties are in the order of the record ids. The sparse leg has only records with a word of the query;
        its scores are by the `statistics`, where these are given. Raises InputError for a leg that is not
        open (field `legs`), for units where only keys are searched (`retrieval`), an unfit `vector` or a
        `depth` of none.
        """
        if query.depth < 1:
            raise InputError("depth", f"The depth of a query must be at least 1, not {query.depth}.")
        if query.searched == "keys+units" and self.manifest.stamp.searched == "keys":
            raise InputError(
                "retrieval",
                f"Collection {self.name!r} has nothing to search but its keys: ask it with retrieval keys, "
                "or index its documents anew with method.retrieval.name=keys+units.",
            )
        return {leg: self._search(leg, query, statistics) for leg in query.legs}

    def statistics(self, query: Query) -> SparseStatistics:
        """What the shards that are open here add to the collection's statistics for the query."""
        searching = self._searches.get(query.searched)
        return searching.statistics(query.text) if searching else SparseStatistics()

    def _search(self, leg: Leg, query: Query, statistics: SparseStatistics | None) -> tuple[Hit, ...]:
        if leg not in self._legs:
            raise InputError("legs", f"The {leg} leg is not open: name it when the collection is opened.")
        searching, filtering = self._searches.get(query.searched), self._filtering
        if searching is None or filtering is None:
            return ()
        admitted = filtering.admitted(query.filter)
        if not admitted.records.any():
            return ()
        if leg == "dense":
            return searching.dense(query, self._vector(query), admitted)
        return searching.sparse(query, admitted, statistics)

    def _vector(self, query: Query) -> Vectors:
        vector, dimension = query.vector, self.manifest.stamp.dimension
        if vector is None or vector.shape != (dimension,) or not np.isfinite(vector).all():
            raise InputError(
                "vector", f"The dense leg needs {dimension} finite numbers as the query's vector."
            )
        return vector

    # ----------------------------------------------------------------------- fetching

    def fetch(self, record_ids: Sequence[str]) -> tuple[Stored, ...]:
        """The records asked for, in that order. Raises NotFoundError (field `record_ids`)."""
        return tuple(self._stored(record_id) for record_id in record_ids)

    def _stored(self, record_id: str) -> Stored:
        for shard in self._shards:
            row = shard.find_record(record_id)
            if row >= 0:
                return shard.stored(row)
        raise NotFoundError(
            "record_ids", f"Collection {self.name!r} has no record {record_id!r}: search again."
        )

    def document(self, document_id: str) -> Document:
        """One live document. Raises NotFoundError (field `document`)."""
        shard, row = self._place(document_id)
        return shard.payload.document(row)

    def passing(self, filter_: Filter) -> tuple[str, ...]:
        """Ids of the live documents that pass. Raises CollectionError for damaged metadata."""
        return tuple(found for shard in self._shards for found in passing_ids(shard, filter_))

    def units(self, document_id: str, numbers: Sequence[int] | None = None) -> tuple[SourceUnit, ...]:
        """The source units of one live document, in order, or those of `numbers` that it has, in theirs.

        Raises NotFoundError (field `document`).
        """
        shard, row = self._place(document_id)
        if numbers is None:
            return shard.payload.units(row)
        first, end = shard.payload.first_unit[row : row + 2]
        return shard.payload.units(row, [number for number in numbers if 1 <= number <= end - first])

    def records(self, document_id: str) -> tuple[Record, ...]:
        """The records of one live document, as written. Raises NotFoundError (field `document`)."""
        shard, row = self._place(document_id)
        return shard.payload.records(row)

    def _place(self, document_id: str) -> tuple[Shard, int]:
        for shard in self._shards:
            row = shard.find_document(document_id)
            if row >= 0:
                return shard, row
        raise NotFoundError(
            "document", f"Collection {self.name!r} has no document {document_id!r}: ask for an indexed one."
        )

    @property
    def name(self) -> str:
        """The collection's name below its root."""
        return self.manifest.name

    def analysis(self, count_tokens: Callable[[str], int]) -> IndexAnalysis:
        """What the index looks like (M-RAG IV-C): reads all of it, for people who inspect."""
        return analyse(self.manifest.counts, self._shards, count_tokens)

    def close(self) -> None:
        """Gives files and memory back; the collection can't be used afterwards."""
        if self._end:
            self._end.detach()
        _close(self._searches)
        self._shards, self._searches, self._filtering, self._legs = (), {}, None, ()
        self._at_hand = None


def _close(searches: Mapping[Searched, Searching]) -> None:
    for searching in searches.values():
        searching.close()


def _close_later(searches: Mapping[Searched, Searching], process: int) -> None:
    """By a thread of its own: who happens to let go last does not wait for Java, or stands amid a call of it.

    A process that was forked has Java's files in name only.
    """
    if process == os.getpid():
        Thread(target=_close, args=(searches,), name="closing a generation").start()


def _verify(root: Path, folder: Path, files: Sequence[FileInfo], how: Verify | None) -> None:
    try:
        _verify_files(folder, files, how)
    except CollectionError:
        if not mended(root, folder, files):
            raise
        _verify_files(folder, files, how)


def _verify_files(folder: Path, files: Sequence[FileInfo], how: Verify | None) -> None:
    all_bytes = partial(verify_files, folder, full=True)
    if how == "full":
        return all_bytes(files)
    verify_files(folder, files, full=False)
    finders = [file for file in files if file.path.endswith(FINDERS)]
    all_bytes(finders)  # They are read in any case, and crash FAISS if damaged.
    if how is None:
        compare_new(folder, [file for file in files if file not in finders], all_bytes)
    return None

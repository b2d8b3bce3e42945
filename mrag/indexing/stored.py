"""Documents of a collection as they were written, to be written again: no model is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, cast

from mrag.collection import Manifest, SearchedUnits, ShardEntry
from mrag.collection.dense import UNITS, DenseVectors
from mrag.collection.payload import DocumentTable
from mrag.collection.segments import DOCUMENTS, ShardsAtHand
from mrag.collection.shard import Shard
from mrag.indexing.keys import expanded_units, key_texts


class StoredEntries:
    """A shard of a generation whose documents become entries again."""

    def __init__(self, shard: Shard, manifest: Manifest) -> None:
        counts, dimension = shard.info.counts, manifest.stamp.dimension
        self._payload = shard.payload
        self._key_text = cast(Literal["key", "titled"], manifest.stamp.key_text)
        self._keys = DenseVectors(shard.folder, (counts.keys, dimension))
        self._units = None
        if manifest.stamp.searched == "keys+units":
            self._units = DenseVectors(shard.folder, (counts.units, dimension), UNITS)

    def entry(self, row: int) -> ShardEntry:
        """The document in a row, with its vectors."""
        payload = self._payload
        built = payload.built(row)
        records, units = (first[row : row + 2] for first in (payload.first_record, payload.first_unit))
        keys = self._keys.rows(*payload.first_key[records])
        searched = None
        if self._units is not None:
            searched = SearchedUnits(expanded_units(built), self._units.rows(*units))
        return ShardEntry(built, key_texts(built, self._key_text), keys, searched)


class StoredDocuments:
    """The live documents of a generation by their ids; of an object store no other shards are fetched."""

    def __init__(self, root: Path, manifest: Manifest) -> None:
        self._manifest = manifest
        self._shards = ShardsAtHand(root, manifest, ending=DOCUMENTS)
        self._tables = [(*shard, DocumentTable(shard[2])) for shard in self._shards]
        self._opened: dict[Path, tuple[Shard, StoredEntries]] = {}

    def entry(self, document: str) -> ShardEntry | None:
        """One of them, None where it does not live. Raises CollectionError and StoreError."""
        for segment, info, folder, table in self._tables:
            if int(table.index.find([document])[0]) < 0:
                continue
            if folder not in self._opened:
                self._shards.fetch(info, folder)
                shard = Shard(folder, info, self._manifest.dead(segment))
                self._opened[folder] = shard, StoredEntries(shard, self._manifest)
            shard, entries = self._opened[folder]
            if (row := shard.find_document(document)) >= 0:
                return entries.entry(row)
        return None

"""Compaction: the live documents in one new segment, and nothing left of the dead or of what was before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mrag.collection import (
    Manifest,
    SegmentInfo,
    ShardEntry,
    ShardInfo,
    existing_manifest,
    known_documents,
    lease,
    new_segment_id,
    publish_compacted,
    read_manifest,
    shard_of,
    write_segment_shard,
)
from mrag.collection.lease import clear
from mrag.collection.manifest import forget_generations, published_segments
from mrag.collection.segments import ShardsAtHand, segment_names, segments_bytes
from mrag.collection.shard import Shard
from mrag.errors import CollectionError, MragError
from mrag.indexing.ledger import Ledger
from mrag.indexing.stored import StoredEntries
from mrag.settings import Settings, SparseSettings
from mrag.settings.address import shown

Write = Callable[[Settings, Manifest, str], Sequence[ShardInfo]]


@dataclass(frozen=True)
class Compaction:
    """What came of it: bytes are those of all segments on disk."""

    documents: int
    bytes_before: int
    bytes_after: int
    segments_before: int
    generation: int

    def table(self) -> list[tuple[str, str]]:
        """Rows of a label and a value."""
        return [
            ("documents", str(self.documents)),
            ("segments", f"{self.segments_before} before, {1 if self.documents else 0} after"),
            ("MB on disk", f"{self.bytes_before / 1e6:.1f} before, {self.bytes_after / 1e6:.1f} after"),
            ("generation", str(self.generation)),
        ]


def compact(settings: Settings, write: Write | None = None, wait_s: float = 0) -> Compaction:
    """Rewrites what lives into one segment of `collection.shards` shards, and removes all else from the disk.

    Nothing is asked of a model: vectors are taken as they are, searches find the same with the same scores.
    Earlier generations are gone afterwards; who has one open can go on reading it. `write` writes the shards,
    by default one after the other. Raises NotFoundError (field `collection`) and CollectionError, also where
    another process still writes after `wait_s`.
    """
    root, name = settings.collection.root, settings.collection.name
    existing_manifest(root, name)
    with lease(root, name, wait_s):
        return compact_held(settings, write)


def compact_if_due(settings: Settings, write: Write | None = None) -> str:
    """The same where `collection.compaction` asks for it, and in a sentence what came of it; else nothing.

    For a caller that holds the lease and has published: what goes wrong here does not undo its work.
    """
    before = read_manifest(settings.collection.root, settings.collection.name)
    reason = _due(settings, before) if before else ""
    if not reason:
        return ""
    try:
        done = compact_held(settings, write)
    except (MragError, OSError) as error:
        return f"failed, for {reason}: {error}"
    return f"for {reason}: {done.bytes_before / 1e6:.1f} MB before, {done.bytes_after / 1e6:.1f} after"


def _due(settings: Settings, manifest: Manifest) -> str:
    due, segments = settings.collection.compaction, len(manifest.segments)
    if due.segments is not None and segments > due.segments:
        return f"{segments} segments"
    if due.dead_share is not None and manifest.dead_share > due.dead_share:
        return f"{manifest.dead_share:.0%} dead records"
    return ""


def compact_held(settings: Settings, write: Write | None = None) -> Compaction:
    """The same for a caller that holds the lease."""
    root, name = settings.collection.root, settings.collection.name
    before = existing_manifest(root, name)
    size = segments_bytes(root, name)
    segment, identifier = None, new_segment_id()
    if before.counts.documents:
        segment = SegmentInfo(identifier, tuple((write or _one_by_one)(settings, before, identifier)))
    after = publish_compacted(root, name, before, segment)
    forget_generations(root, after)
    clear(root, name)
    if published_segments(root, name) != segment_names(root, name):
        raise CollectionError(
            f"Collection {name!r} is compacted, but old files in {shown(root)} can't be removed: "
            "see that you may, and run it again."
        )
    Ledger(root, name).forget(before.tombstones.keys() - known_documents(root, name).keys())
    left = segments_bytes(root, name)
    return Compaction(after.counts.documents, size, left, len(before.segments), after.generation)


def _one_by_one(settings: Settings, before: Manifest, segment: str) -> list[ShardInfo]:
    return [write_compacted(settings, before, segment, shard) for shard in range(settings.collection.shards)]


def write_compacted(settings: Settings, before: Manifest, segment: str, shard: int) -> ShardInfo:
    """Writes one shard of the new segment: the live documents that belong there."""
    root, stamp = settings.collection.root, before.stamp
    sparse = SparseSettings(language=stamp.analyzer, k1=stamp.k1, b=stamp.b)
    entries = _entries(settings, before, shard)
    return write_segment_shard(root, before.name, segment, shard, entries, settings.dense, sparse)


def _entries(settings: Settings, before: Manifest, wanted: int) -> Iterator[ShardEntry]:
    for part, info, folder in ShardsAtHand(settings.collection.root, before):
        shard = Shard(folder, info, before.dead(part))
        stored = StoredEntries(shard, before)
        for row, identifier in enumerate(shard.payload.documents.table.column("id").to_pylist()):
            if shard.live_documents[row] and shard_of(identifier, settings.collection.shards) == wanted:
                yield stored.entry(row)

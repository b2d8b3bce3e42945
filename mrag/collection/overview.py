"""What collections are like from outside: what their manifests say, without opening a segment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrag.collection.manifest import (
    Counts,
    Manifest,
    SegmentInfo,
    ShardInfo,
    existing_manifest,
    generations,
)
from mrag.schema import Searched


@dataclass(frozen=True)
class Overview:
    """A collection in one line: `builder` is the builder's name, `counts` are those of the live documents."""

    name: str
    generation: int
    builder: str
    searched: Searched
    counts: Counts


@dataclass(frozen=True)
class ShardSize:
    """One shard as it was written, the dead included."""

    documents: int
    records: int
    bytes: int


@dataclass(frozen=True)
class SegmentSize:
    """One segment, the generation that it came with, and its shards in their order."""

    id: str
    generation: int
    shards: tuple[ShardSize, ...]


@dataclass(frozen=True)
class Description(Overview):
    """All that the manifest in force says, for people who look after a collection.

    `generations` are those that can still be put in force, ascending; `removal` is the last one that took
    documents out. `dead_share` is the share of the written records that no live document has any more: what a
    compaction gives back. `duplicates` counts the inputs whose text another document holds.
    """

    generations: tuple[int, ...]
    removal: int
    segments: tuple[SegmentSize, ...]
    bytes: int
    dead_share: float
    duplicates: int
    encoder: str
    dimension: int
    analyzer: str
    key_text: str
    built_with: Mapping[str, Any]


def overview(root: Path, name: str) -> Overview:
    """Of one collection. Raises NotFoundError (field `collection`) and CollectionError."""
    return Overview(*_line(existing_manifest(root, name)))


def describe(root: Path, name: str) -> Description:
    """The same with all that its manifest says. Raises as `overview` does."""
    manifest = existing_manifest(root, name)
    stamp, segments = manifest.stamp, tuple(map(_segment, manifest.segments))
    return Description(
        *_line(manifest),
        generations=generations(root, name),
        removal=manifest.removal,
        segments=segments,
        bytes=sum(shard.bytes for segment in segments for shard in segment.shards),
        dead_share=manifest.dead_share,
        duplicates=len(manifest.duplicates),
        encoder=stamp.encoder,
        dimension=stamp.dimension,
        analyzer=stamp.analyzer,
        key_text=stamp.key_text,
        built_with=dict(stamp.builder_settings),
    )


def _line(manifest: Manifest) -> tuple[str, int, str, Searched, Counts]:
    stamp = manifest.stamp
    builder = str(stamp.builder_settings.get("name", stamp.builder))
    return manifest.name, manifest.generation, builder, stamp.searched, manifest.counts


def _segment(segment: SegmentInfo) -> SegmentSize:
    return SegmentSize(segment.id, segment.generation, tuple(map(_shard, segment.shards)))


def _shard(shard: ShardInfo) -> ShardSize:
    return ShardSize(shard.counts.documents, shard.counts.records, shard.bytes)

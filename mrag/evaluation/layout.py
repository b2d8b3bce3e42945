"""How a collection lies on disk: its segments and shards, their sizes, what is dead in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mrag.collection import Manifest, SegmentInfo, ShardInfo, VectorSearch
from mrag.evaluation.sections import Section, number, percent, share

MB = 1e6


def layout_sections(manifest: Manifest, live_documents: Sequence[int]) -> Iterator[Section]:
    """One table of shards, and one of vectors that are not simply searched one by one.

    `live_documents` are those of each shard, in the order of the manifest.
    """
    rows = tuple(_row(*parts) for parts in _shards(manifest, live_documents))
    about = (
        f"Generation {manifest.generation}, in the order of publication. "
        f"{percent(manifest.dead_share)} of all records are dead: they are searched past until a compaction."
    )
    shards = ("segment", "since generation", "shard", "documents", "dead", "records", "keys", "MB")
    yield Section("Segments", about, shards, rows)
    searches = tuple(_search_row(*parts) for parts in _searches(manifest))
    if searches:
        about = (
            "Recall at 20 against all vectors, as measured when each was built; the others are searched flat."
        )
        head = ("segment", "shard", "vectors", "kind", "recall at 20", "parameters", "note")
        yield Section("Vectors", about, head, searches)


def layout(manifest: Manifest, live_documents: Sequence[int]) -> list[dict[str, Any]]:
    """The same as JSON values, a shard each."""
    return [
        {
            "segment": segment.id,
            "generation": segment.generation,
            "shard": at,
            "documents": shard.counts.documents,
            "dead_documents": shard.counts.documents - live,
            "records": shard.counts.records,
            "keys": shard.counts.keys,
            "bytes": shard.bytes,
            "searches": [vars(search) for search in shard.searches],
        }
        for segment, at, shard, live in _shards(manifest, live_documents)
    ]


def _shards(manifest: Manifest, live: Sequence[int]) -> Iterator[tuple[SegmentInfo, int, ShardInfo, int]]:
    shards = [
        (segment, at, shard) for segment in manifest.segments for at, shard in enumerate(segment.shards)
    ]
    for (segment, at, shard), living in zip(shards, live, strict=True):
        yield segment, at, shard, living


def _row(segment: SegmentInfo, at: int, shard: ShardInfo, live: int) -> tuple[str, ...]:
    counts = shard.counts
    dead = share(counts.documents - live, counts.documents)
    numbers = (counts.documents, percent(dead), number(counts.records), number(counts.keys))
    return (segment.id[:8], str(segment.generation), str(at), *map(str, numbers), f"{shard.bytes / MB:.1f}")


def _searches(manifest: Manifest) -> Iterator[tuple[SegmentInfo, int, VectorSearch]]:
    for segment in manifest.segments:
        for at, shard in enumerate(segment.shards):
            for search in shard.searches:
                yield segment, at, search


def _search_row(segment: SegmentInfo, at: int, search: VectorSearch) -> tuple[str, ...]:
    parameters = ", ".join(f"{name} {value}" for name, value in search.parameters.items())
    recall = "exact" if search.recall is None else f"{search.recall:.3f}"
    return segment.id[:8], str(at), search.file, search.kind, recall, parameters, search.note

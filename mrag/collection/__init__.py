"""The access path: immutable segments of records, searched by their keys, published as generations."""

from __future__ import annotations

from mrag.collection.collection import Collection
from mrag.collection.contents import Copy, content_hash, text_of
from mrag.collection.generations import (
    check_stamp,
    duplicates,
    known_documents,
    publish,
    publish_compacted,
    restore,
    segment_documents,
)
from mrag.collection.histogram import Histogram
from mrag.collection.index_analysis import IndexAnalysis
from mrag.collection.lease import lease
from mrag.collection.manifest import (
    Counts,
    Manifest,
    SegmentInfo,
    ShardInfo,
    VectorSearch,
    existing_manifest,
    list_collections,
    new_segment_id,
    no_collection,
    read_manifest,
    shard_folder,
)
from mrag.collection.overview import Description, Overview, SegmentSize, ShardSize, describe, overview
from mrag.collection.segment import (
    SearchedUnits,
    ShardEntry,
    shard_of,
    write_segment_shard,
    write_shard,
)
from mrag.collection.stamp import SCHEMA_VERSION, Stamp
from mrag.collection.storage import FileInfo

__all__ = [
    "SCHEMA_VERSION",
    "Collection",
    "Copy",
    "Counts",
    "Description",
    "FileInfo",
    "Histogram",
    "IndexAnalysis",
    "Manifest",
    "Overview",
    "SearchedUnits",
    "SegmentInfo",
    "SegmentSize",
    "ShardEntry",
    "ShardInfo",
    "ShardSize",
    "Stamp",
    "VectorSearch",
    "check_stamp",
    "content_hash",
    "describe",
    "duplicates",
    "existing_manifest",
    "known_documents",
    "lease",
    "list_collections",
    "new_segment_id",
    "no_collection",
    "overview",
    "publish",
    "publish_compacted",
    "read_manifest",
    "restore",
    "segment_documents",
    "shard_folder",
    "shard_of",
    "text_of",
    "write_segment_shard",
    "write_shard",
]

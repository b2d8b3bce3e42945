"""Small collections for the tests of the access path: every vector follows from its key's text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mrag.collection import (
    Copy,
    Manifest,
    SearchedUnits,
    SegmentInfo,
    ShardEntry,
    Stamp,
    new_segment_id,
    publish,
    shard_of,
    write_segment_shard,
)
from mrag.collection.ids import stable_hash
from mrag.schema import (
    Built,
    Coverage,
    Document,
    Filter,
    Query,
    Record,
    RecordKind,
    SourceUnit,
    Usage,
    Vectors,
)
from mrag.settings import DenseSettings, SparseSettings

DIMENSION = 16
STAMP = Stamp(
    builder="units-1",
    encoder="hash-16",
    dimension=DIMENSION,
    analyzer="en",
    k1=0.9,
    b=0.4,
    key_text="key",
    builder_settings={"max_unit_tokens": 240},
)
STAMP_WITH_UNITS = replace(STAMP, searched="keys+units")


def vector_of(text: str) -> Vectors:
    """A unit row; the same text gives the same one."""
    row = np.random.default_rng(stable_hash(text)).normal(size=DIMENSION)
    return (row / np.linalg.norm(row)).astype(np.float32)


def vectors_of(texts: Sequence[str]) -> Vectors:
    """Rows (n, DIMENSION)."""
    return np.stack([vector_of(text) for text in texts]) if texts else np.empty((0, DIMENSION), np.float32)


def make_entry(document_id: str, keys: Sequence[Sequence[str]], text: str | None = None) -> ShardEntry:
    """A document of one unit and one record for each tuple of keys; its text is the keys' unless given."""
    parts = [" / ".join(record) for record in keys] if text is None else [text] * len(keys)
    units, start = [], 0
    for number, part in enumerate(parts, start=1):
        units.append(SourceUnit(document_id, number, start, start + len(part), part, ("Top", f"§{number}")))
        start += len(part) + 2
    document = Document(document_id, "\n\n".join(parts), f"About {document_id}", {"year": 1900})
    records = tuple(
        Record(
            f"{document_id}#{unit.number}",
            document_id,
            tuple(record),
            f"value of {unit.text}",
            (unit.number,),
        )
        for unit, record in zip(units, keys, strict=True)
    )
    built = Built(document, tuple(units), records, Coverage(len(units), len(units), 0))
    texts = [key for record in keys for key in record]
    return ShardEntry(built, tuple(tuple(record) for record in keys), vectors_of(texts))


def with_metadata(entry: ShardEntry, **metadata: Any) -> ShardEntry:
    """The same document with other metadata."""
    document = replace(entry.built.document, metadata=metadata)
    return replace(entry, built=replace(entry.built, document=document))


def built_entry(
    document_id: str,
    texts: Sequence[str],
    records: Sequence[tuple[RecordKind, tuple[int, ...], Sequence[str], str]],
    usage: Usage | None = None,
    rejected: Mapping[str, int] | None = None,
) -> ShardEntry:
    """A document of these units, with records of a kind, pointers, keys and a value."""
    plain = make_entry(document_id, [[text] for text in texts]).built
    made = tuple(
        Record(f"{document_id}#{number}", document_id, tuple(keys), value, pointers, kind)
        for number, (kind, pointers, keys, value) in enumerate(records)
    )
    built = replace(plain, records=made, usage=usage or Usage(), rejected=rejected or {})
    keys = tuple(record.keys for record in made)
    return ShardEntry(built, keys, vectors_of([key for record in keys for key in record]))


def make_pointed(
    document_id: str, units: Sequence[str], records: Iterable[tuple[Sequence[str], tuple[int, ...]]]
) -> ShardEntry:
    """A document of these units, searched too, and of records of keys and pointers."""
    entry = make_entry(document_id, [[unit] for unit in units])
    made = tuple(
        Record(f"{document_id}#{number}", document_id, tuple(keys), f"value {number}", pointers)
        for number, (keys, pointers) in enumerate(records, start=1)
    )
    built = replace(entry.built, records=made)
    texts = [key for record in made for key in record.keys]
    return with_units(ShardEntry(built, tuple(record.keys for record in made), vectors_of(texts)))


def with_units(entry: ShardEntry) -> ShardEntry:
    """The same document with its source units to be searched, each expanded by the keys that lead to it."""
    texts = [
        " ".join(
            [unit.text]
            + [key for record in entry.built.records if unit.number in record.pointers for key in record.keys]
        )
        for unit in entry.built.units
    ]
    vectors = vectors_of([unit.text for unit in entry.built.units])
    return replace(entry, units=SearchedUnits(tuple(texts), vectors))


def write_segment(
    root: Path,
    name: str,
    entries: Iterable[ShardEntry],
    shards: int = 1,
    language: str = "en",
    dense: DenseSettings | None = None,
) -> SegmentInfo:
    """A segment on disk, not yet published."""
    sparse = SparseSettings(language=language)
    spread: list[list[ShardEntry]] = [[] for _ in range(shards)]
    for entry in entries:
        spread[shard_of(entry.built.document.id, shards)].append(entry)
    segment = new_segment_id()
    infos = [
        write_segment_shard(root, name, segment, number, part, dense or DenseSettings(), sparse)
        for number, part in enumerate(spread)
    ]
    return SegmentInfo(segment, tuple(infos))


def add(
    root: Path,
    name: str,
    entries: Iterable[ShardEntry],
    shards: int = 1,
    replaced: Collection[str] = (),
    duplicates: Mapping[str, str] | None = None,
    stamp: Stamp = STAMP,
    dense: DenseSettings | None = None,
) -> Manifest:
    """One run: a segment written and published."""
    segment = write_segment(root, name, entries, shards, stamp.analyzer, dense)
    copies = {name: Copy(holder) for name, holder in (duplicates or {}).items()}
    return publish(root, name, stamp, segment, replaced, copies)


def ask(text: str, depth: int = 10, unit_weight: float | None = None, filter_: Filter = ()) -> Query:
    """A query of both legs; with a weight, of keys and units."""
    query = Query(text, depth, vector=vector_of(text), filter=filter_)
    if unit_weight is None:
        return query
    return replace(query, searched="keys+units", unit_weight=unit_weight)

"""From one generation to the next: what is known, and how a segment becomes part of the collection."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from mrag.collection.contents import Copy
from mrag.collection.lease import lease, publishing
from mrag.collection.manifest import (
    Counts,
    Manifest,
    SegmentInfo,
    existing_manifest,
    in_force,
    read_manifest,
    write_manifest,
)
from mrag.collection.payload import DocumentTable
from mrag.collection.segments import DOCUMENTS, ShardsAtHand, check_written
from mrag.collection.stamp import Stamp
from mrag.errors import CollectionError


def known_documents(root: Path, name: str) -> Mapping[str, str]:
    """Content hash of every live document by its id; empty for a collection that does not exist."""

    def known(manifest: Manifest) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for segment, _, folder in ShardsAtHand(root, manifest, ending=DOCUMENTS):
            hashes = DocumentTable(folder).content_hashes()
            for document in manifest.dead(segment):
                hashes.pop(document, None)
            found |= hashes
        return found

    return in_force(root, name, known) if read_manifest(root, name) else {}


def duplicates(root: Path, name: str) -> Mapping[str, str]:
    """The document that holds the text of each duplicate; empty for a collection that does not exist."""
    manifest = read_manifest(root, name)
    return manifest.duplicates if manifest else {}


def segment_documents(root: Path, name: str, stamp: Stamp, segment: SegmentInfo) -> Mapping[str, str]:
    """Content hash of every document of a written segment, by its id."""
    found: dict[str, str] = {}
    for _, _, folder in ShardsAtHand(root, Manifest(name, 0, stamp, (segment,)), ending=DOCUMENTS):
        found |= DocumentTable(folder).content_hashes()
    return found


def check_stamp(root: Path, name: str, stamp: Stamp) -> None:
    """Raises CollectionError where `publish` would refuse the stamp: call it before the expensive work."""
    manifest = read_manifest(root, name)
    if manifest is not None:
        _agree(manifest, stamp)


def publish(
    root: Path,
    name: str,
    stamp: Stamp,
    segment: SegmentInfo | None,
    replaced: Collection[str] = (),
    copies: Mapping[str, Copy] | None = None,
) -> Manifest:
    """Makes a written segment part of the collection, as its next generation.

    What earlier segments hold of the `replaced` documents, and of those in the segment, is dead from then on.
    `copies`, by the ids of the inputs, join those that are known; one that is replaced, or whose document
    is, or is in the segment, is forgotten unless it is named. Nothing new makes no generation: the
    one in force is returned. Publishers wait for each other, and each goes on from the other's generation.
    Raises CollectionError for another stamp, for a segment whose files are not all there, and for a disk
    that is full or may not be written to.
    """
    with publishing(root, name):
        current = read_manifest(root, name)
        before = current or Manifest(name, 0, stamp)
        _agree(before, stamp)
        after = _next(root, before, segment, set(replaced), copies or {})
        if current is not None and replace(after, generation=current.generation) == current:
            return current
        write_manifest(root, after)
        return after


def publish_compacted(root: Path, name: str, before: Manifest, segment: SegmentInfo | None) -> Manifest:
    """Puts one segment in the place of all those of the generation `before`, as the next generation.

    None stands for a collection without a live document. Call it under the lease. Raises as `publish` does.
    """
    with publishing(root, name):
        if read_manifest(root, name) != before:
            raise CollectionError(f"Collection {name!r} changed while it was compacted: run it again.")
        if segment is not None:
            _added(root, before, segment)
        number = before.generation + 1
        segments = () if segment is None else (replace(segment, generation=number),)
        # Counted anew: what detects languages may be another version, and words other ones.
        counts = sum((part.counts for part in segments), Counts())
        after = replace(before, generation=number, segments=segments, tombstones={}, counts=counts)
        write_manifest(root, after)
        return after


def restore(root: Path, name: str, generation: int, wait_s: float = 0) -> Manifest:
    """Puts what an earlier generation held in force again, as the next generation.

    Raises NotFoundError (field `collection` or `generation`), and CollectionError for damaged files and where
    another process still writes after `wait_s`.
    """
    existing_manifest(root, name)
    with lease(root, name, wait_s), publishing(root, name):
        earlier, current = existing_manifest(root, name, generation), existing_manifest(root, name)
        if generation == current.generation:
            return current
        for _, shard, path in earlier.shard_folders(root):
            check_written(root, path, shard.files)
        number = current.generation + 1
        after = replace(earlier, generation=number, removal=number)
        write_manifest(root, after)
        return after


def _next(
    root: Path,
    before: Manifest,
    segment: SegmentInfo | None,
    replaced: set[str],
    copies: Mapping[str, Copy],
) -> Manifest:
    if segment is not None and segment.id in {known.id for known in before.segments}:
        return before
    number = before.generation + 1
    added = _added(root, before, segment) if segment is not None else set()
    gone = replaced | added
    dead, loss = _deaths(root, before, gone)
    kept = {name: copy for name, copy in before.copies.items() if not {name, copy.holder} & gone}
    new = (replace(segment, generation=number),) if segment is not None and added else ()
    return replace(
        before,
        generation=number,
        segments=before.segments + new,
        tombstones={**before.tombstones, **dict.fromkeys(sorted(dead), number)},
        copies={name: copy for name, copy in {**kept, **copies}.items() if name not in added},
        counts=sum((part.counts for part in new), before.counts - loss),
        removal=number if dead - added else before.removal,
    )


def _agree(manifest: Manifest, stamp: Stamp) -> None:
    differences = manifest.stamp.differences(stamp)
    if differences:
        raise CollectionError(
            f"Collection {manifest.name!r} is built with other settings ({'; '.join(differences)}): "
            "go back to its settings, or index into a collection of another name, where its documents "
            f"({manifest.counts.documents:,}) are read again; collection.replies_of={manifest.name} takes "
            "from here what both ask alike."
        )


def _added(root: Path, before: Manifest, segment: SegmentInfo) -> set[str]:
    """Ids of the documents in a new segment, whose files are there and are what the stamp announces."""
    added: set[str] = set()
    alone = replace(before, segments=(segment,))
    for _, shard, folder in alone.shard_folders(root):
        check_written(root, folder, shard.files)
    for _, shard, folder in ShardsAtHand(root, alone, ending=DOCUMENTS):
        if shard.dimension not in (0, before.stamp.dimension):
            raise CollectionError(
                f"{folder} has vectors of {shard.dimension} dimensions and collection {before.name!r} of "
                f"{before.stamp.dimension}: encode its keys with the collection's encoder."
            )
        if shard.dimension and shard.searched != before.stamp.searched:
            raise CollectionError(
                f"{folder} is written for retrieval {shard.searched} and collection {before.name!r} for "
                f"{before.stamp.searched}: index its documents with the collection's retrieval."
            )
        added.update(DocumentTable(folder).content_hashes())
    return added


def _deaths(root: Path, manifest: Manifest, documents: set[str]) -> tuple[set[str], Counts]:
    """Which of the documents live in the generation, and how much there is of them."""
    dead, loss = set[str](), Counts()
    for segment, _, folder in ShardsAtHand(root, manifest, ending=DOCUMENTS) if documents else ():
        asked = sorted(documents.difference(manifest.dead(segment)))
        table = DocumentTable(folder)
        rows = table.index.find(asked)
        dead |= {document for document, row in zip(asked, rows, strict=True) if row >= 0}
        loss += table.counts(rows[rows >= 0])
    return dead, loss

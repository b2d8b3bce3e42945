"""Segments as files: which are there, whether they are whole, and a generation's shards to read."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from mrag.collection.manifest import (
    WHOLE,
    Manifest,
    Part,
    SegmentInfo,
    ShardInfo,
    collection_folder,
)
from mrag.collection.mirror import Pin, fetch, key_of
from mrag.collection.object_store import store_of
from mrag.collection.storage import FileInfo, verify
from mrag.errors import CollectionError

DOCUMENTS = "documents.arrow"
PAYLOAD = ".arrow"


class ShardsAtHand:
    """The shards of a generation (those of a part), each with its segment and its folder, in their order.

    Their files are in their folders when they are given, and as long as this lives; of an object store those
    only whose paths have this `ending`. Raises StoreError where it does not give them.
    """

    def __init__(self, root: Path, manifest: Manifest, part: Part = WHOLE, ending: str = "") -> None:
        self._root = root
        self._shards = list(manifest.shard_folders(root, part))
        self._ending = ending if store_of(root) else ""
        self._pins: list[Pin] = []

    def __iter__(self) -> Iterator[tuple[SegmentInfo, ShardInfo, Path]]:
        for segment, shard, folder in self._shards:
            self._pins.append(fetch(self._root, folder, self.files(shard)))
            yield segment, shard, folder

    def fetch(self, shard: ShardInfo, folder: Path) -> None:
        """Has all files of a shard in its folder, as long as this lives."""
        self._pins.append(fetch(self._root, folder, shard.files))

    def files(self, shard: ShardInfo) -> list[FileInfo]:
        """Those that are in its folder."""
        return [file for file in shard.files if file.path.endswith(self._ending)]


def check_written(root: Path, folder: Path, files: Iterable[FileInfo]) -> None:
    """Raises CollectionError where a file of a shard is gone, or has another size."""
    store = store_of(root)
    if store is None:
        return verify(folder, files, full=False)
    key = key_of(root, folder)
    sizes = store.sizes(key)
    for file in files:
        found = sizes.get(f"{key}/{file.path}")
        if found != file.bytes:
            fault = "is missing" if found is None else f"has {found} bytes instead of {file.bytes}"
            place = store.place(f"{key}/{file.path}")
            raise CollectionError(f"{place} {fault}: restore it from a copy, or index the collection anew.")
    return None


def segment_names(root: Path, name: str) -> set[str]:
    """Of all segments that are there, published or not."""
    folder, store = collection_folder(root, name) / "segments", store_of(root)
    here = {path.name for path in folder.glob("*")}
    return here if store is None else here.union(store.folders(f"{name}/segments"))


def segments_bytes(root: Path, name: str) -> int:
    """Of all their files."""
    folder, store = collection_folder(root, name) / "segments", store_of(root)
    if store is not None:
        return sum(store.sizes(f"{name}/segments").values())
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def remove_segments(root: Path, name: str, segments: Iterable[str]) -> None:
    """Removes them for good, here and in the store; who has them open goes on reading them."""
    folder, store = collection_folder(root, name) / "segments", store_of(root)
    for segment in segments:
        if store is not None:
            store.remove(store.sizes(f"{name}/segments/{segment}"))
        shutil.rmtree(folder / segment, ignore_errors=True)

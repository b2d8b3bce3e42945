"""What a generation consists of, as values and as JSON: nothing here reads a segment.

`CURRENT` names the generation in force and its manifest's checksum (current.py); `manifests/000007.json` is
the manifest of generation 7.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from mrag.collection.contents import Copy
from mrag.collection.current import CURRENT, Current, read_current
from mrag.collection.files import Files, ObjectFiles, files_of
from mrag.collection.mirror import local_root
from mrag.collection.object_store import store_of
from mrag.collection.remote_lease import publishing
from mrag.collection.stamp import SCHEMA_VERSION, Stamp
from mrag.collection.storage import FileInfo, damaged, sync
from mrag.errors import CollectionError, InputError, NotFoundError, StoreError
from mrag.schema import Searched
from mrag.settings.address import shown

UNIT_VECTORS = "units.faiss"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Counts:
    """How much there is. `worded_keys` have a word left after analysis; `words` are those of all keys.

    `worded_units` and `unit_words` are the same of the source units, 0 where only keys are searched.
    """

    documents: int = 0
    units: int = 0
    records: int = 0
    keys: int = 0
    worded_keys: int = 0
    words: int = 0
    worded_units: int = 0
    unit_words: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{name: value + getattr(other, name) for name, value in asdict(self).items()})

    def __sub__(self, other: Counts) -> Counts:
        return Counts(**{name: value - getattr(other, name) for name, value in asdict(self).items()})


@dataclass(frozen=True)
class VectorSearch:
    """By what one file of vectors is searched: its `kind` with its parameters, and why it is no other.

    `recall` at 20 is what it finds of the best of all vectors, as measured when it was built (vector_recall);
    None for `flat`, which finds them all.
    """

    file: str
    kind: str
    parameters: Mapping[str, int] = field(default_factory=dict)
    note: str = ""
    recall: float | None = None


@dataclass(frozen=True)
class ShardInfo:
    """One shard as it was written, the dead included. `dimension` is 0 for a shard without keys.

    `searches` names the files of vectors that are not simply `flat`.
    """

    counts: Counts
    dimension: int
    files: tuple[FileInfo, ...]
    searches: tuple[VectorSearch, ...] = ()

    @property
    def bytes(self) -> int:
        """Of all its files."""
        return sum(file.bytes for file in self.files)

    def kind(self, file: str) -> str:
        """By what this file of vectors is searched."""
        return next((search.kind for search in self.searches if search.file == file), "flat")

    @property
    def searched(self) -> Searched:
        """What a query may search in this shard."""
        return "keys+units" if any(file.path == UNIT_VECTORS for file in self.files) else "keys"


@dataclass(frozen=True)
class SegmentInfo:
    """What one run adds. `generation` is the one that it came with: `publish` sets it."""

    id: str
    shards: tuple[ShardInfo, ...]
    generation: int = 0

    @property
    def counts(self) -> Counts:
        """Of all its shards, the dead included."""
        return sum((shard.counts for shard in self.shards), Counts())


@dataclass(frozen=True)
class Part:
    """What one of `of` searchers holds: of every segment the shards whose number modulo `of` is `index`."""

    index: int = 0
    of: int = 1


WHOLE = Part()


@dataclass(frozen=True)
class Manifest:
    """One generation. `counts` are those of the live documents.

    `name` is that of the folder it was read from, whatever the file says: a copy is a collection of its own.
    `tombstones` gives for a document the generation before which everything published of it is dead.
    `copies` are the inputs that were not indexed because a document holds their text.
    `removal` is the last generation that took documents out: nobody may read one before it any more.
    """

    name: str
    generation: int
    stamp: Stamp
    segments: tuple[SegmentInfo, ...] = ()
    tombstones: Mapping[str, int] = field(default_factory=dict)
    copies: Mapping[str, Copy] = field(default_factory=dict)
    counts: Counts = Counts()
    removal: int = 0

    def dead(self, segment: SegmentInfo) -> list[str]:
        """Ids of documents that don't live in this segment, whether it ever held them or not."""
        return [document for document, end in self.tombstones.items() if segment.generation < end]

    @property
    def duplicates(self) -> Mapping[str, str]:
        """For each copy the document that holds its text."""
        return {name: copy.holder for name, copy in self.copies.items()}

    @property
    def dead_share(self) -> float:
        """Of all records in the segments, how many are dead."""
        written = sum(segment.counts.records for segment in self.segments)
        return 1 - self.counts.records / written if written else 0.0

    def shard_folders(self, root: Path, part: Part = WHOLE) -> Iterator[tuple[SegmentInfo, ShardInfo, Path]]:
        """Every shard of the part with its segment and its folder, in the order of publication."""
        for segment in self.segments:
            for number, shard in enumerate(segment.shards):
                if number % part.of != part.index:
                    continue
                yield segment, shard, shard_folder(root, self.name, segment.id, number)


# --------------------------------------------------------------------------- paths


def new_segment_id() -> str:
    """A name for the segment of one run; no two runs get the same."""
    return uuid.uuid4().hex


def collection_folder(root: Path, name: str) -> Path:
    """The folder of a collection, on this machine. Raises InputError for a name that can't be one."""
    return local_root(root) / _checked(name)


def _checked(name: str) -> str:
    if not NAME.fullmatch(name):
        raise InputError(
            "collection",
            f"{name!r} can't be the name of a collection: use up to 64 letters, digits, '_', '.' and '-', "
            "a letter or a digit first.",
        )
    return name


def shard_folder(root: Path, name: str, segment: str, shard: int) -> Path:
    """Where a shard of a segment is written to and read from."""
    return collection_folder(root, name) / "segments" / segment / f"shard-{shard:03d}"


def list_collections(root: Path) -> tuple[str, ...]:
    """Names of the collections below `root` that have a generation in force, sorted."""
    if store := store_of(root):
        names = filter(NAME.fullmatch, store.folders())
        return tuple(sorted(name for name in names if _is_published(files_of(root, name))))
    found = (path.parent.name for path in root.glob(f"*/{CURRENT}"))
    return tuple(sorted(filter(NAME.fullmatch, found)))


def _is_published(files: Files) -> bool:
    try:
        return read_current(files).generation > 0
    except StoreError:
        raise
    except CollectionError:  # Damaged: who opens it is told.
        return True


def generations(root: Path, name: str) -> tuple[int, ...]:
    """Numbers of the generations whose manifests are there, ascending; the last is in force.

    Raises CollectionError where nobody can say which that is.
    """
    files = files_of(root, _checked(name))
    newest = read_current(files).generation
    return tuple(sorted(number for number in _numbers(files) if number <= newest))


# --------------------------------------------------------------------------- reading


def read_manifest(root: Path, name: str, generation: int | None = None) -> Manifest | None:
    """The manifest in force, or that of an earlier `generation`; None where there is no such collection.

    Raises NotFoundError (field `generation`), and CollectionError for a damaged or unsupported file.
    """
    files = files_of(root, _checked(name))
    current = read_current(files)
    newest = current.generation
    if not newest:
        return None
    if generation is None or generation == newest:
        return replace(_remembered(files, newest, current.checksum), name=name)
    if not 0 < generation < newest or generation not in _numbers(files):
        raise NotFoundError(
            "generation", f"Collection {name!r} has no generation {generation}; the one in force is {newest}."
        )
    return replace(_remembered(files, generation, None), name=name)


def existing_manifest(root: Path, name: str, generation: int | None = None) -> Manifest:
    """The same of a collection that must be there. Raises NotFoundError (field `collection`) besides."""
    manifest = read_manifest(root, name, generation) if NAME.fullmatch(name) else None
    if manifest is None:
        raise no_collection(root, name)
    return manifest


def no_collection(root: Path, name: str) -> NotFoundError:
    """The error for a collection that is not there, or that someone must not know of."""
    return NotFoundError("collection", f"There is no collection {name!r} in {shown(root)}: index one first.")


def in_force(root: Path, name: str, work: Callable[[Manifest], Result]) -> Result:
    """What `work` makes of the generation in force; once more where another took its place meanwhile.

    A compaction removes the files of those before it. Raises as `existing_manifest`, and CollectionError.
    """
    manifest = existing_manifest(root, name)
    while True:
        try:
            return work(manifest)
        except CollectionError:
            newer = existing_manifest(root, name)
            if newer.generation == manifest.generation:
                raise
            manifest = newer


def published_segments(root: Path, name: str) -> set[str]:
    """Ids of the segments of all generations. Raises CollectionError for a manifest that can't be read."""
    files = files_of(root, _checked(name))
    return {segment.id for number in _numbers(files) for segment in _read(files, number, None).segments}


def _path(generation: int) -> str:
    return f"manifests/{generation:06d}.json"


def _read(files: Files, generation: int, checksum: str | None) -> Manifest:
    place = files.place(_path(generation))
    try:
        content = files.read(_path(generation))
        if content is None:
            raise damaged(place, "is missing")
        tree = json.loads(content)
        if not isinstance(tree, dict):
            raise damaged(place, "is no manifest")
        _check(place, tree, checksum)
    except OSError as error:
        raise damaged(place, f"can't be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise damaged(place, "is not valid JSON") from None
    return _manifest(tree)


def _remembered(files: Files, generation: int, checksum: str | None) -> Manifest:
    """The same, read once for all questions: what is large takes long to read and to check.

    In a store it is by its checksum the same for ever; on a disk it may have been damaged since.
    """
    identity = checksum if isinstance(files, ObjectFiles) else files.identity(_path(generation))
    return _kept(files, generation, checksum, identity) if identity else _read(files, generation, checksum)


@lru_cache(maxsize=64)
def _kept(files: Files, generation: int, checksum: str | None, _identity: Hashable) -> Manifest:
    return _read(files, generation, checksum)


def _check(place: Path | str, tree: dict[str, Any], checksum: str | None) -> None:
    version = tree.get("schema_version")
    if version != SCHEMA_VERSION:
        raise CollectionError(
            f"{place} has schema version {version!r:.20} and this mrag reads {SCHEMA_VERSION}: "
            "use the mrag that wrote it, or index the collection anew."
        )
    written, found = tree.pop("checksum", None), _checksum(tree)
    if written != found or checksum not in (None, found):
        raise damaged(place, "has another checksum than when it was written")


def _manifest(tree: Mapping[str, Any]) -> Manifest:
    """From a tree whose checksum is right, so that its shape is too."""
    values = {key: value for key, value in tree.items() if key != "schema_version"}
    stamp, counts = Stamp(**tree["stamp"]), Counts(**tree["counts"])
    segments = tuple(_segment(segment) for segment in tree["segments"])
    # Until copies were kept, no more was said of one than who holds its text.
    bare = {name: {"holder": holder} for name, holder in values.pop("duplicates", {}).items()}
    copies = {name: Copy(**copy) for name, copy in values.pop("copies", bare).items()}
    return Manifest(**{**values, "stamp": stamp, "counts": counts, "segments": segments, "copies": copies})


def _segment(tree: Mapping[str, Any]) -> SegmentInfo:
    return SegmentInfo(tree["id"], tuple(_shard(shard) for shard in tree["shards"]), tree["generation"])


def _shard(tree: Mapping[str, Any]) -> ShardInfo:
    files = tuple(FileInfo(**file) for file in tree["files"])
    searches = tuple(VectorSearch(**search) for search in tree.get("searches", ()))
    return ShardInfo(Counts(**tree["counts"]), tree["dimension"], files, searches)


# --------------------------------------------------------------------------- writing


def write_manifest(root: Path, manifest: Manifest) -> None:
    """Puts a generation in force: its manifest first, `CURRENT` last. Call it among publishers (lease.py)."""
    name, number = _checked(manifest.name), manifest.generation
    tree = {"schema_version": SCHEMA_VERSION, **asdict(manifest)}
    checksum = _checksum(tree)
    content = json.dumps({**tree, "checksum": checksum}, indent=1, ensure_ascii=True).encode("ascii")
    if store := store_of(root):
        with publishing(store, name) as lease:
            lease.publish(number, checksum, content)
        return
    files = files_of(root, name)
    files.write(_path(number), content)
    sync(root)
    files.write(CURRENT, Current(number, checksum).lines())


def forget_generations(root: Path, manifest: Manifest) -> None:
    """Removes the manifests of all generations before this one."""
    files = files_of(root, _checked(manifest.name))
    files.remove(_path(number) for number in _numbers(files) if number < manifest.generation)


def forget_unpublished(root: Path, name: str) -> None:
    """Removes manifests that a writer wrote who died before they were in force. Call it as the one writer.

    A second one where nothing is in force is no such thing: then `CURRENT` is lost, and all stay. Raises
    CollectionError for a damaged `CURRENT`.
    """
    files = files_of(root, _checked(name))
    newest = read_current(files).generation
    later = [number for number in _numbers(files) if number > newest]
    if newest or later == [1]:
        files.remove(map(_path, later))


def _numbers(files: Files) -> list[int]:
    stems = [name.removesuffix(".json") for name in files.names("manifests") if name.endswith(".json")]
    return [int(stem) for stem in stems if stem.isdigit()]


def _checksum(tree: Mapping[str, Any]) -> str:
    canonical = json.dumps(tree, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()

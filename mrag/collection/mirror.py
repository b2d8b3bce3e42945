"""What this machine has of collections in an object store: fetched when it is asked for, dropped for room.

Everything reads local files, mapped into memory; a root that is an address has a folder below `stores()`
where they are put. A shard there may lack files: `fetch` has those that are named. Beside its folder are two
files to lock: `.shard-000.pin`, held by whoever reads the shard so that no one drops it, and as old as its
last use; and `.shard-000.lock`, held by the one who fetches.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from mrag.collection.object_store import CHUNK_BYTES, ObjectStore, store_of
from mrag.collection.storage import FileInfo, checksum, locked, writable
from mrag.errors import StoreError
from mrag.settings.address import store_address
from mrag.settings.home import stores

AT_ONCE = 8
_PINS = ".shard-*.pin"
Pin = IO[bytes] | None


def local_root(root: Path) -> Path:
    """The folder that a root is, or in which this machine has what it fetched of a store."""
    address = store_address(root)
    if address is None:
        return root
    told = f"{address} {address.endpoint or ''}"
    return stores() / f"{address.bucket}-{hashlib.sha256(told.encode()).hexdigest()[:16]}"


def key_of(root: Path, path: Path) -> str:
    """The object that a file or a folder of the mirror stands for."""
    return path.relative_to(local_root(root)).as_posix()


# --------------------------------------------------------------------------- to and fro


def fetch(root: Path, folder: Path, files: Iterable[FileInfo]) -> Pin:
    """Has these files of a shard in its folder, with the bytes that they were written with.

    None of them is dropped while what is returned lives; in a root that is a folder nothing is, or is done.
    Raises StoreError for an object that is gone or damaged, CollectionError for a disk that is full.
    """
    store = store_of(root)
    if store is None:
        return None
    wanted = list(files)
    with writable(folder):
        pin = _pinned(folder)
        if _missing(folder, wanted):
            with locked(_beside(folder, "lock")):
                missing = _missing(folder, wanted)
                make_room(root, sum(file.bytes for file in missing))
                _download(store, key_of(root, folder), folder, missing)
    return pin


def upload(root: Path, folder: Path, files: Iterable[FileInfo]) -> None:
    """Makes objects of the files of a shard that was written. Raises StoreError."""
    if store := store_of(root):
        with writable(folder), _pinned(folder), ThreadPoolExecutor(AT_ONCE) as pool:
            key = key_of(root, folder)
            list(pool.map(lambda file: store.put(f"{key}/{file.path}", folder / file.path), files))
        make_room(root, 0)


def mended(root: Path, folder: Path, files: Iterable[FileInfo]) -> bool:
    """Fetches again what is not as it was written; False where there is nowhere to fetch it from."""
    if store_of(root) is None:
        return False
    wanted = list(files)
    for file in wanted:
        path = folder / file.path
        if path.is_file() and checksum(path) != file.sha256:
            path.unlink(missing_ok=True)
    fetch(root, folder, wanted)
    return True


def _missing(folder: Path, files: Iterable[FileInfo]) -> list[FileInfo]:
    return [file for file in files if not _is_there(folder / file.path, file.bytes)]


def _is_there(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def _download(store: ObjectStore, key: str, folder: Path, files: Sequence[FileInfo]) -> None:
    """Several ranges at once; a file takes its name when all its bytes are right."""
    temporary = _beside(folder, "tmp")
    shutil.rmtree(temporary, ignore_errors=True)  # Of one who was killed: the lock is ours.
    temporary.mkdir()
    try:
        paths = [temporary / str(number) for number in range(len(files))]
        with ExitStack() as opened, ThreadPoolExecutor(AT_ONCE) as pool:
            ranges = list[tuple[str, int, int, int]]()
            for path, file in zip(paths, files, strict=True):
                into = opened.enter_context(open(path, "wb"))
                into.truncate(file.bytes)
                ranges += _ranges(f"{key}/{file.path}", into.fileno(), file.bytes)
            list(pool.map(lambda one: store.download(*one), ranges))
        for path, file in zip(paths, files, strict=True):
            _accept(path, folder, file, store.place(f"{key}/{file.path}"))
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _ranges(key: str, into: int, size: int) -> list[tuple[str, int, int, int]]:
    return [(key, into, at, min(CHUNK_BYTES, size - at)) for at in range(0, size, CHUNK_BYTES)]


def _accept(path: Path, folder: Path, file: FileInfo, place: str) -> None:
    if checksum(path) != file.sha256:
        raise StoreError(
            f"{place} has another checksum than when it was written: restore it from a copy, or index the "
            "collection anew."
        )
    target = folder / file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(path, target)


# --------------------------------------------------------------------------- room


def make_room(root: Path, needed: int) -> None:
    """Drops shards that nobody reads, those first that were used longest ago, until `needed` bytes have room.

    What is being read stays, though that be more than the limit of the address.
    """
    address = store_address(root)
    limit = address.cache_gib * 2**30 if address else 0
    pins = sorted(local_root(root).glob(f"*/segments/*/{_PINS}"), key=_last_used)
    sizes = {pin: _bytes(_shard(pin)) for pin in pins}
    excess = sum(sizes.values()) + needed - limit
    for pin in pins:
        if excess <= 0:
            return
        if _dropped(pin):
            excess -= sizes[pin]


def drop_old(root: Path, name: str, kept: Collection[str]) -> None:
    """Drops what was fetched of segments that are not among `kept` and that nobody reads."""
    if store_of(root):
        for pin in (local_root(root) / name / "segments").glob(f"*/{_PINS}"):
            if pin.parent.name not in kept:
                _dropped(pin)


def _dropped(pin: Path) -> bool:
    try:
        with open(pin, "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(_shard(pin), ignore_errors=True)
    except BlockingIOError:
        return False
    except FileNotFoundError:  # Its segment was removed.
        pass
    return True


def _pinned(folder: Path) -> IO[bytes]:
    """Waits for one who is just dropping it."""
    pin = _beside(folder, "pin")
    pin.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as opened:
        file = opened.enter_context(open(pin, "ab"))
        fcntl.flock(file, fcntl.LOCK_SH)
        os.utime(pin)
        opened.pop_all()
        return file


def _beside(folder: Path, kind: str) -> Path:
    return folder.with_name(f".{folder.name}.{kind}")


def _shard(pin: Path) -> Path:
    return pin.with_name(pin.name.removeprefix(".").removesuffix(".pin"))


def _last_used(pin: Path) -> float:
    try:
        return pin.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _bytes(folder: Path) -> int:
    """What another process removes meanwhile is nothing."""
    return sum(_size(Path(at, name)) for at, _, names in os.walk(folder) for name in names)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0

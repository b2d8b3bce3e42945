"""Files that are whole or absent: atomic writes, checksums, and the lock of the publishers."""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mrag.errors import CollectionError


@dataclass(frozen=True)
class FileInfo:
    """One file of a shard: its path below the shard's folder, its size in bytes and its SHA-256."""

    path: str
    bytes: int
    sha256: str


def atomic_write(path: Path, content: bytes) -> None:
    """Makes `path` hold `content`, on disk before this returns; readers see the old file or the new one."""
    temporary = _temporary(path)
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill, which takes the name `folder` and the place of what is there once it is on disk.

    After an error nothing is left of it, and what was there still is.
    """
    temporary = _temporary(folder)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        for path in temporary.rglob("*"):
            sync(path)
        sync(temporary)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for above in (folder.parent, folder.parent.parent):
        sync(above)


def _temporary(path: Path) -> Path:
    return path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")


def sync(path: Path) -> None:
    """Forces one file, or the entries of one folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def writable(path: Path) -> Iterator[None]:
    """Around writing below `path`: what the system refuses is a CollectionError that says what to do."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split())
        raise CollectionError(
            f"{path} can't be written ({reason}): see that collection.root is a folder with room that you "
            "may write to (of an object store, that MRAG_STORES is), and run again; what was published "
            "before is untouched."
        ) from error


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the one exclusive lock on `path` among all threads and processes; waits for it."""
    with open(path, "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def being_written(name: str, holder: str, waited_s: float) -> CollectionError:
    """The error for a collection that another writer holds."""
    still = f" still, after {waited_s:g} s of waiting," if waited_s else ""
    return CollectionError(
        f"Collection {name!r} is{still} being written by {holder}: wait until that has ended, or let the "
        "command wait (--wait SECONDS)."
    )


def checksum(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe(folder: Path) -> tuple[FileInfo, ...]:
    """Every file below `folder`, by its path."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return tuple(
        FileInfo(path.relative_to(folder).as_posix(), path.stat().st_size, checksum(path)) for path in paths
    )


def verify(folder: Path, files: Iterable[FileInfo], *, full: bool) -> None:
    """Raises CollectionError, naming the first file that is gone or of another size (`full`: other bytes)."""
    for file in files:
        path = folder / file.path
        if not path.is_file():
            raise CollectionError(f"{path} is missing: restore it, or index the collection anew.")
        if path.stat().st_size != file.bytes:
            raise damaged(path, f"has {path.stat().st_size} bytes instead of {file.bytes}")
        if full and checksum(path) != file.sha256:
            raise damaged(path, "has another checksum than when it was written")


def damaged(path: Path | str, fault: str) -> CollectionError:
    """The error for a file that can't be used, in one sentence."""
    return CollectionError(f"{path} {fault}: restore it from a copy, or index the collection anew.")


@contextmanager
def understood(path: Path) -> Iterator[None]:
    """Around reading what was written well: bytes that make no sense are a damaged file.

    A text of negative length is a SystemError of Python's, by way of Arrow.
    """
    try:
        yield
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError, SystemError) as error:
        reason = " ".join(str(error).split())[:200]
        raise damaged(path, f"has a row that can't be understood ({reason})") from None

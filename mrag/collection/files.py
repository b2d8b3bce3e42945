"""The small files of a collection: whole or absent, in a folder or as objects of a store."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mrag.collection.mirror import local_root
from mrag.collection.object_store import ObjectStore, store_of
from mrag.collection.storage import atomic_write, sync, writable

SETTLED_NS = 10**9


class Files(Hashable, Protocol):
    """Files by their paths below a collection. Raises OSError for what the disk refuses, and StoreError."""

    def place(self, path: str) -> Path | str:
        """A file as it is told to people."""

    def read(self, path: str) -> bytes | None:
        """All bytes of a file; None where there is none."""

    def identity(self, path: str) -> Hashable:
        """What is another one whenever the file may hold other bytes; None where nobody can say."""

    def write(self, path: str, content: bytes) -> None:
        """Makes the file hold this, for good before this returns. Raises CollectionError."""

    def names(self, folder: str) -> list[str]:
        """Names of the files right in a folder, in no order; none where there is no folder."""

    def below(self, folder: str) -> Iterator[str]:
        """Paths of all files below a folder, in no order."""

    def remove(self, paths: Iterable[str]) -> None:
        """Removes files, whether they are there or not."""


def files_of(root: Path, name: str) -> Files:
    """Those of one collection, whose name is one."""
    store = store_of(root)
    return FolderFiles(local_root(root) / name) if store is None else ObjectFiles(store, name)


@dataclass(frozen=True)
class FolderFiles:
    """`Files` on a disk."""

    folder: Path

    def place(self, path: str) -> Path:
        """As `Files` has it."""
        return self.folder / path

    def read(self, path: str) -> bytes | None:
        """As `Files` has it."""
        try:
            return (self.folder / path).read_bytes()
        except FileNotFoundError:
            return None

    def identity(self, path: str) -> Hashable:
        """As `Files` has it: not of a file so young that the clock's next tick may be the same one."""
        try:
            found = (self.folder / path).stat()
        except OSError:
            return None
        settled = time.time_ns() - found.st_mtime_ns > SETTLED_NS
        return (found.st_ino, found.st_size, found.st_mtime_ns) if settled else None

    def write(self, path: str, content: bytes) -> None:
        """As `Files` has it."""
        target = self.folder / path
        with writable(target.parent):
            target.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(target, content)

    def names(self, folder: str) -> list[str]:
        """As `Files` has it."""
        return [path.name for path in (self.folder / folder).glob("*")]

    def below(self, folder: str) -> Iterator[str]:
        """As `Files` has it."""
        for path in (self.folder / folder).rglob("*"):
            if path.is_file():
                yield path.relative_to(self.folder).as_posix()

    def remove(self, paths: Iterable[str]) -> None:
        """As `Files` has it; a folder that is empty then goes too."""
        removed = [self.folder / path for path in paths]
        for path in removed:
            path.unlink(missing_ok=True)
        for folder in {path.parent for path in removed}:
            try:
                folder.rmdir()
            except OSError:  # Others are in it, or it is not there.
                with suppress(FileNotFoundError):
                    sync(folder)


@dataclass(frozen=True)
class ObjectFiles:
    """`Files` in an object store."""

    store: ObjectStore
    name: str

    def place(self, path: str) -> str:
        """As `Files` has it."""
        return self.store.place(self._key(path))

    def read(self, path: str) -> bytes | None:
        """As `Files` has it."""
        found = self.store.get(self._key(path))
        return found[0] if found else None

    def identity(self, path: str) -> Hashable:
        """As `Files` has it."""
        return None

    def write(self, path: str, content: bytes) -> None:
        """As `Files` has it."""
        self.store.put(self._key(path), content)

    def names(self, folder: str) -> list[str]:
        """As `Files` has it."""
        return [key.rpartition("/")[2] for key in self.store.sizes(self._key(folder))]

    def below(self, folder: str) -> Iterator[str]:
        """As `Files` has it."""
        for key in self.store.sizes(self._key(folder)):
            yield key.removeprefix(f"{self.name}/")

    def remove(self, paths: Iterable[str]) -> None:
        """As `Files` has it."""
        self.store.remove(map(self._key, paths))

    def _key(self, path: str) -> str:
        return f"{self.name}/{path}"

"""The small files of a collection: whole or absent, in a folder or as objects of a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mrag.collection.mirror import local_root
from mrag.collection.object_store import ObjectStore, store_of
from mrag.collection.storage import atomic_write, sync, writable


class Files(Protocol):
    """Files by their paths below a collection. Raises OSError for what the disk refuses, and StoreError."""

    def place(self, path: str) -> Path | str:
        """A file as it is told to people."""

    def read(self, path: str) -> bytes | None:
        """All bytes of a file; None where there is none."""

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


class FolderFiles:
    """`Files` on a disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def place(self, path: str) -> Path:
        """As `Files` has it."""
        return self._folder / path

    def read(self, path: str) -> bytes | None:
        """As `Files` has it."""
        try:
            return (self._folder / path).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, path: str, content: bytes) -> None:
        """As `Files` has it."""
        target = self._folder / path
        with writable(target.parent):
            target.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(target, content)

    def names(self, folder: str) -> list[str]:
        """As `Files` has it."""
        return [path.name for path in (self._folder / folder).glob("*")]

    def below(self, folder: str) -> Iterator[str]:
        """As `Files` has it."""
        for path in (self._folder / folder).rglob("*"):
            if path.is_file():
                yield path.relative_to(self._folder).as_posix()

    def remove(self, paths: Iterable[str]) -> None:
        """As `Files` has it; a folder that is empty then goes too."""
        removed = [self._folder / path for path in paths]
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

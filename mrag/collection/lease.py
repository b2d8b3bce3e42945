"""One writer at a time: who adds segments holds the collection, and first clears what dead ones left."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from mrag.collection.manifest import collection_folder, published_segments
from mrag.collection.storage import locked, writable
from mrag.errors import CollectionError


@contextmanager
def lease(root: Path, name: str) -> Iterator[None]:
    """Holds the collection, which need not exist yet: from the look at its documents to the publication.

    The lock is the system's: it ends with the process that holds it, however that ends. Raises
    CollectionError where another process writes, and says which.
    """
    folder = collection_folder(root, name)
    with writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / ".writer", "a+", encoding="utf-8")  # noqa: SIM115 (closed below)
    with file:
        with writable(folder):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CollectionError(
                    f"Collection {name!r} is being written by {_holder(file)}: wait until that has ended."
                ) from None
            _sign(file)
            clear(root, name)
        yield


def _sign(file: IO[str]) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    file.truncate(0)
    json.dump({"process": os.getpid(), "host": socket.gethostname(), "since": now}, file)
    file.flush()


def _holder(file: IO[str]) -> str:
    file.seek(0)
    try:
        told: dict[str, Any] = json.load(file)
        return f"process {told['process']} on {told['host']} since {told['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process"


def clear(root: Path, name: str) -> None:
    """Removes segments that no generation has, and files that were not finished. Call it as the one writer.

    Nothing is removed where a manifest can't be read.
    """
    folder = collection_folder(root, name)
    with locked(folder / ".lock"):
        try:
            kept = published_segments(root, name)
        except CollectionError:
            return
        for segment in (folder / "segments").glob("*"):
            if segment.name not in kept:
                shutil.rmtree(segment, ignore_errors=True)
        for part in (*folder.glob("*.tmp"), *(folder / "manifests").glob("*.tmp")):
            part.unlink(missing_ok=True)

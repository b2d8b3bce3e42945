"""One writer at a time: who adds segments holds the collection, and first clears what dead ones left."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from mrag.collection.manifest import collection_folder, forget_unpublished, published_segments
from mrag.collection.object_store import store_of
from mrag.collection.remote_lease import held
from mrag.collection.remote_lease import publishing as remote_publishing
from mrag.collection.segments import remove_segments, segment_names
from mrag.collection.storage import being_written, locked, writable
from mrag.errors import CollectionError

_POLL_S = 0.1


@contextmanager
def lease(root: Path, name: str, wait_s: float = 0) -> Iterator[None]:
    """Holds the collection, which need not exist yet: from the look at its documents to the publication.

    In a folder the lock is the system's: it ends with the process that holds it, however that ends. In an
    object store it ends `TERM_S` after the process did. Raises CollectionError where another process still
    writes after `wait_s`, and says which.
    """
    folder, store = collection_folder(root, name), store_of(root)
    with held(store, name, wait_s) if store else _locked(folder, name, wait_s):
        with writable(folder):
            clear(root, name)
        yield


@contextmanager
def _locked(folder: Path, name: str, wait_s: float) -> Iterator[None]:
    with writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / ".writer", "a+", encoding="utf-8")  # noqa: SIM115 (closed below)
    with file:
        with writable(folder):
            _lock(file, name, wait_s)
            _sign(file)
        yield


@contextmanager
def publishing(root: Path, name: str) -> Iterator[None]:
    """Publishers wait for each other in it. What the disk refuses is a CollectionError."""
    folder, store = collection_folder(root, name), store_of(root)
    with writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with remote_publishing(store, name) if store else locked(folder / ".lock"):
            yield


def _lock(file: IO[str], name: str, wait_s: float) -> None:
    until = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            left_s = until - time.monotonic()
            if left_s <= 0:
                raise being_written(name, _holder(file), wait_s) from None
        time.sleep(min(_POLL_S, left_s))


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
    """Removes what was never in force: generations, segments, unfinished files. Call it as the one writer.

    Nothing is removed where a manifest can't be read.
    """
    folder = collection_folder(root, name)
    with publishing(root, name):
        try:
            forget_unpublished(root, name)
            kept = published_segments(root, name)
        except CollectionError:
            return
        remove_segments(root, name, segment_names(root, name) - kept)
        # A writer of a shard that was killed, and started again elsewhere.
        for shard in (folder / "segments").glob("*/*.tmp"):
            shutil.rmtree(shard, ignore_errors=True)
        for part in (*folder.glob("*.tmp"), *(folder / "manifests").glob("*.tmp")):
            part.unlink(missing_ok=True)

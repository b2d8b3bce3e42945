"""Which files this machine has compared with their checksums, so that all their bytes are read once here."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from mrag.collection.storage import FileInfo, atomic_write
from mrag.settings.home import home

FOLDER = "verified"
_Seen = list[Any]  # As JSON has it.


def unseen(folder: Path, files: Iterable[FileInfo]) -> list[FileInfo]:
    """Those that were not compared here, or may have changed since: another inode, size or time of change."""
    known = _read(_record(folder))
    return [file for file in files if known.get(file.path) != _identity(folder, file)]


def remember(folder: Path, files: Sequence[FileInfo]) -> None:
    """Notes that all these files of a folder are as they were written.

    What can't be noted is compared again the next time. Notes of folders that are gone go too.
    """
    record = _record(folder)
    seen = {file.path: _identity(folder, file) for file in files}
    with suppress(OSError):
        record.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(record, json.dumps({"folder": str(folder.resolve()), "files": seen}).encode())
        _forget_gone(record.parent)


def _record(folder: Path) -> Path:
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()
    return home() / FOLDER / f"{name}.json"


def _identity(folder: Path, file: FileInfo) -> _Seen | None:
    try:
        found = (folder / file.path).stat()
    except OSError:
        return None
    return [file.sha256, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def _read(record: Path) -> dict[str, _Seen]:
    with suppress(OSError, ValueError, TypeError, KeyError):
        return dict(json.loads(record.read_bytes())["files"])
    return {}


@cache
def _forget_gone(records: Path) -> None:
    """Once a process."""
    for record in records.glob("*.json"):
        with suppress(OSError, ValueError, TypeError, KeyError):
            if not Path(json.loads(record.read_bytes())["folder"]).is_dir():
                record.unlink(missing_ok=True)

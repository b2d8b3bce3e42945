"""Which files this machine has compared with their checksums, so that all their bytes are read once here."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from mrag.collection.storage import FileInfo, atomic_write
from mrag.settings.home import home

FOLDER = "verified"
_Seen = list[Any]  # As JSON has it.


def compare_new(
    folder: Path, files: Sequence[FileInfo], compare: Callable[[Sequence[FileInfo]], None]
) -> None:
    """Has those compared that were not yet here, or may have changed since: another inode, size or time.

    When `compare` returns they are noted as they were before it. What can't be noted is compared again the
    next time. Notes of folders that are gone go too.
    """
    record, found = _record(folder), {file.path: _identity(folder, file) for file in files}
    known = _read(record)
    new = [file for file in files if known.get(file.path) != found[file.path]]
    if new:
        compare(new)
        _note(record, folder, found)


def _note(record: Path, folder: Path, found: Mapping[str, _Seen | None]) -> None:
    with suppress(OSError):
        record.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(record, json.dumps({"folder": str(folder.resolve()), "files": found}).encode())
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

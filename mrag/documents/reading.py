"""The bytes of a file, within bounds."""

from __future__ import annotations

from pathlib import Path

from mrag.errors import DocumentError

MAX_FILE_MIB = 256


def read_file(path: Path, max_mib: int = MAX_FILE_MIB) -> bytes:
    """All of a file. Raises OSError, and DocumentError for one that is too large to be one document."""
    mib = path.stat().st_size / 2**20
    if mib > max_mib:
        raise DocumentError(f"It has {mib:,.0f} MiB and {max_mib} are read; split it into several files.")
    return path.read_bytes()

"""What can happen to a file: its last byte is lost, a bit in its middle is another."""

from __future__ import annotations

from pathlib import Path


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)

"""What a change does to the disk, access by access: to die before one of them, or to have the disk fail."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "shutil.rmtree"}
Reached = Callable[[str], None]

_watching: list[tuple[str, Reached]] = []
_hooked = False


@contextmanager
def watched(root: Path, reached: Reached) -> Iterator[None]:
    """Calls `reached` with the event before each access below the root, by whatever thread."""
    _hook()
    _watching.append((str(root), reached))
    try:
        yield
    finally:
        _watching.pop()


def _hook() -> None:
    """An audit hook stays for good: there is one, which looks who is watching."""
    global _hooked
    if _hooked:
        return
    _hooked = True

    def fsync(descriptor: int, sync: Callable[[int], None] = os.fsync) -> None:
        for _, reached in _watching:
            reached("fsync")
        sync(descriptor)

    os.fsync = fsync  # type: ignore[assignment]
    sys.addaudithook(_audit)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching and event in EVENTS and arguments and isinstance(arguments[0], str | Path):
        for root, reached in _watching:
            if str(arguments[0]).startswith(root):
                reached(event)


@contextmanager
def failing(root: Path, moment: int) -> Iterator[None]:
    """From the `moment`-th access on nothing can be written or read below the root, nor cleared away."""
    count = 0

    def reached(event: str) -> None:
        nonlocal count
        if event == "shutil.rmtree":  # What it does is refused one by one.
            return
        count += 1
        if count >= moment:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with watched(root, reached):
        yield

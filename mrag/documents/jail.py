"""Folders that others name lie below given roots, or are not there; and no path beyond them is told."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from mrag.errors import InputError

HIDDEN = "(a place on the server)"
MAX_BYTES = 4096

# As much as can be part of a name in a sentence, and does not end it.
_REST = r"(?:[^\s'\",;:)]*[^\s'\",;:).])"
_PATH = re.compile(rf"(?<![\w.])/{_REST}")
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s'\",;)]*[^\s'\",;:).]", re.IGNORECASE)


def jailed(name: str, roots: Sequence[Path]) -> Path:
    """The folder of this name below one of the roots, links resolved; a relative one in their order.

    Raises InputError (field `folder`), in the same words whatever is wrong: they tell nothing of what lies
    outside.
    """
    for root in roots:
        try:
            found = _below(name, root)
        except (OSError, ValueError):  # a NUL, half a character, a loop of links, a name beyond all limits
            continue
        if found is not None:
            return found
    raise InputError(
        "folder",
        "There is no such folder that this service may read: name one below the roots of serve.jobs.",
    )


def _below(name: str, root: Path) -> Path | None:
    if len(os.fsencode(name)) > MAX_BYTES or ".." in Path(name).parts:
        return None
    inside = Path(os.path.realpath(root, strict=True))
    found = Path(os.path.realpath(root / name, strict=True))
    return found if found.is_relative_to(inside) and found.is_dir() else None


def without_paths(text: str, roots: Sequence[Path], *secret: Path) -> str:
    """The text without addresses, and without absolute paths but for those below the roots.

    The `secret` ones are recognised with blanks in them, too.
    """
    for path in secret:
        text = re.sub(re.escape(str(path)) + f"{_REST}?", HIDDEN, text)
    text = _ADDRESS.sub(HIDDEN, text)
    return _PATH.sub(lambda found: _told(found.group(), roots), text)


def _told(path: str, roots: Sequence[Path]) -> str:
    known = ".." not in Path(path).parts and any(Path(path).is_relative_to(root) for root in roots)
    return path if known else HIDDEN

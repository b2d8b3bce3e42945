"""A title for what carries none: its file's name, made readable."""

from __future__ import annotations

from pathlib import PurePosixPath


def readable(name: str) -> str:
    """`reports/price-list_2025.txt` becomes `Price list 2025`; dashes between digits stay."""
    stem = PurePosixPath(name).stem
    words = "".join(_spaced(stem, at) for at in range(len(stem))).split()
    title = " ".join(words) or stem
    return title[:1].upper() + title[1:]


def _spaced(stem: str, at: int) -> str:
    between_digits = stem[at - 1 : at].isdigit() and stem[at + 1 : at + 2].isdigit()
    return " " if stem[at] == "_" or (stem[at] == "-" and not between_digits) else stem[at]

"""Which evidence rows an answer rests on: those that the model cites, or those that say what it says."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mrag.documents.facts import facts
from mrag.documents.words import content_words
from mrag.query.verify import only_orders
from mrag.schema import EvidenceRow

_MARK = re.compile(r"\s*\[\s*(?:rows? )?(\d{1,3}(?:\s*[,;]\s*\d{1,3})*)\s*\]", re.IGNORECASE)

_VERDICT = re.compile(r"(?:yes|no|true|false)\W*", re.IGNORECASE)


def without_marks(text: str) -> tuple[str, tuple[int, ...]]:
    """The text without marks such as `[2]` or `[1, 3]`, and their numbers in order, each once."""
    numbers: list[int] = []
    while marks := list(_MARK.finditer(text)):  # what was around one may be one
        numbers += [int(number) for mark in marks for number in re.findall(r"\d+", mark[1])]
        text = _MARK.sub("", text)
    return text.strip(), tuple(dict.fromkeys(numbers))


def attributed(text: str, rows: Mapping[int, EvidenceRow], question: str = "") -> tuple[int, ...]:
    """The numbers of the rows that together say what they can of the answer, in its order.

    One after the other the row is taken that says most of what is left, and of equal ones the one that says
    most of the question: its numbers, names and words that carry meaning. A row that only adds a single word
    to another is not. A bare yes or no rests on the rows that say what the question does.
    """
    asked = _parts(question)
    verdict = bool(_VERDICT.fullmatch(text.strip()))
    order = list(asked if verdict else _parts(text))
    parts = {n: _parts(said(row)) for n, row in rows.items()}
    left, cited = dict.fromkeys(order), dict[int, int]()
    while left:
        gain = {n: [part for part in left if part in known] for n, known in parts.items() if n not in cited}
        best = max(gain, key=lambda n: (len(gain[n]), len(asked.keys() & parts[n].keys())), default=0)
        if not best or not gain[best]:
            break
        if cited and not verdict and len(gain[best]) == 1 and not _tells(gain[best][0]):
            break
        cited[best] = min(map(order.index, gain[best]))
        left = {part: None for part in left if part not in gain[best]}
    return tuple(sorted(cited, key=lambda n: cited[n]))


def said(row: EvidenceRow) -> str:
    """All that a row says and its quote was checked for."""
    checked = (cell for column, cell in row.cells.items() if not only_orders(column, cell))
    return " . ".join([*checked, row.quote])


def _parts(text: str) -> dict[str, None]:
    """The words of a text that carry meaning, and its numbers in one notation, in order."""
    stated = facts(text)
    numbers = sorted(f"{number:f}" for number in stated.quantities)
    return dict.fromkeys([*content_words(text), *numbers])


def _tells(part: str) -> bool:
    return any(c.isdigit() for c in part)

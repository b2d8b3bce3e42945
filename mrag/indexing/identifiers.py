"""Position identifiers of the prompt that leaked into what a record says."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal

from mrag.documents.facts import facts
from mrag.indexing.tagging import Window

_NUMBERS = r"\d{1,9}(?:\s*(?:[,;&–-]|and)\s*\d{1,9})*"
_LABEL = r"(?:paragraph|passage|unit)s?"
_SQUARE = re.compile(rf"\s*\[(?:{_LABEL}\s*)?({_NUMBERS})\]", re.IGNORECASE)
_ROUND = re.compile(rf"\s*(?<!\w)\((?:{_LABEL}\s*)?({_NUMBERS})\)", re.IGNORECASE)
_NAMED = re.compile(rf"(?<![\w\[(]){_LABEL}\s*(?:(?:no\.|number)\s*)?[\[(]?({_NUMBERS})", re.IGNORECASE)


def without_identifiers(text: str, window: Window) -> str:
    """Without `[3]`, `[3, 4]`, `(3)` and `(paragraph 3)`, where 3 and 4 were shown.

    What the source has is its own: a square bracket as it is, of a round one the numbers. A text that
    `names_identifier` stays as it is: without the number it would make no sense.
    """

    def leaked(match: re.Match[str]) -> bool:
        return _shown(match[1], window) and _squeezed(match[0]) not in _squeezed(_source(window))

    if names_identifier(text, window):
        return text
    text = _ROUND.sub(lambda match: "" if _forged(match[1], window) else match[0], text)
    return _SQUARE.sub(lambda match: "" if leaked(match) else match[0], text)


def names_identifier(text: str, window: Window) -> bool:
    """Whether the text speaks of `paragraph 3`, a number that the prompt has and the source has not."""
    return any(_forged(match[1], window) for match in _NAMED.finditer(text))


def _forged(numbers: str, window: Window) -> bool:
    return _shown(numbers, window) and not _says_one_of(_numbers(numbers), _source(window))


def _shown(numbers: str, window: Window) -> bool:
    return set(_numbers(numbers)) <= set(window.numbers)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


def _says_one_of(numbers: Iterable[int], source: str) -> bool:
    """In digits, or in words."""
    said = facts(source).quantities
    return any(Decimal(number) in said or re.search(rf"(?<!\d){number}(?!\d)", source) for number in numbers)


def _source(window: Window) -> str:
    return "\n".join((window.text, window.before, window.after))


def _squeezed(text: str) -> str:
    return "".join(text.split()).casefold()

"""From what a reply holds to records that may be published: everything else has a reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mrag.documents.decoding import clean
from mrag.indexing.grounding import ungrounded
from mrag.indexing.markers import KEY, POINTERS, VALUE
from mrag.indexing.records import Draft
from mrag.indexing.replies import raw_records
from mrag.indexing.tagging import Window
from mrag.models.prompt import CONTROL_TOKEN

VALIDATOR = 3  # counted up when other records are valid than before: what was validated is asked anew


@dataclass(frozen=True)
class Parsed:
    """One reply: the valid records, exact duplicates merged, and why each other one was rejected."""

    drafts: tuple[Draft, ...]
    rejected: tuple[str, ...] = ()


class _InvalidError(ValueError):
    """Why a record is rejected, in a few words."""


_WORD = re.compile(r"\w+")
_IDENTIFIER = re.compile(r"\s*\[(\d{1,9})\]")
_LABEL = re.compile(
    r"(?:key|question|record|unit|paragraph|value|fact|title|section|document|number)s?[\W\d_]*",
    re.IGNORECASE,
)
_KEY_CHARACTERS = 400
_SPARE_CHARACTERS = 200
_CLEARLY = 0.3


def parse(reply: str, window: Window, max_pointers: int) -> Parsed:
    """The records of a reply to `window` that hold what they must."""
    drafts, rejected = [], []
    for raw in raw_records(reply):
        try:
            drafts.append(_validated(raw, window, max_pointers))
        except _InvalidError as reason:
            rejected.append(str(reason))
    return Parsed(merged(drafts), tuple(rejected))


def merged(drafts: Iterable[Draft]) -> tuple[Draft, ...]:
    """Drafts of one value from the same units become one draft with all their keys."""
    found: dict[tuple[str, tuple[int, ...]], Draft] = {}
    for draft in drafts:
        place = (" ".join(draft.value.split()).casefold(), draft.pointers)
        keys = (*found[place].keys, *draft.keys) if place in found else draft.keys
        distinct = {key.casefold(): key for key in reversed(keys)}
        found[place] = replace(found.get(place, draft), keys=tuple(reversed(distinct.values())))
    return tuple(found.values())


def _validated(raw: Mapping[str, Any], window: Window, max_pointers: int) -> Draft:
    pointers = _pointers(raw.get(POINTERS), window, max_pointers)
    key = " ".join(_text(raw, KEY, window).split())
    value = _text(raw, VALUE, window)
    if key.casefold() == " ".join(value.split()).casefold():
        raise _InvalidError("its key only repeats its value")
    if len(key) > _KEY_CHARACTERS:
        raise _InvalidError("the key is too long to be one")
    source = sum(len(unit.text) for unit in window.units if unit.number in pointers)
    if len(value) > 2 * source + _SPARE_CHARACTERS:
        raise _InvalidError("the value is longer than what it is taken from")
    if _belongs_elsewhere(value, pointers, window):
        raise _InvalidError("its value is taken from a unit that it does not point to")
    if reason := ungrounded(value, window.around(pointers)):
        raise _InvalidError(reason)
    return Draft((key,), value, pointers)


def _belongs_elsewhere(value: str, pointers: tuple[int, ...], window: Window) -> bool:
    """Whether another unit, or the text around, has clearly more of the value's words.

    Small models write down one paragraph and point to another.
    """
    words = _words(value)
    own = _words(" ".join(unit.text for unit in window.units if unit.number in pointers))
    others = [unit.text for unit in window.units if unit.number not in pointers]
    elsewhere = max(len(words & _words(text)) for text in (*others, window.before, window.after))
    return elsewhere - len(words & own) > _CLEARLY * len(words)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _pointers(raw: Any, window: Window, max_pointers: int) -> tuple[int, ...]:
    items = raw if isinstance(raw, list) else [raw]
    numbers = sorted({number for item in items if (number := _number(item)) is not None})
    if not numbers:
        raise _InvalidError("it points to no unit")
    if not set(numbers) <= set(window.numbers):
        raise _InvalidError("it points to a unit that was not shown")
    if len(numbers) > max_pointers:
        raise _InvalidError("it points to too many units")
    return tuple(numbers)


def _number(item: Any) -> int | None:
    """A unit number as models write it: 3, 3.0, "3" or "[3]"."""
    if isinstance(item, str) and (digits := re.fullmatch(r"\s*\[?(\d{1,9})\]?\s*", item)):
        return int(digits[1])
    if isinstance(item, bool) or not isinstance(item, int | float) or item != item // 1:
        return None
    return int(item)


def _text(raw: Mapping[str, Any], field: str, window: Window) -> str:
    value = raw.get(field)
    if not isinstance(value, str):
        raise _InvalidError(f"it has no {field}")
    text = _without_identifiers(clean(value), window).strip()
    if not text:
        raise _InvalidError(f"its {field} is empty")
    if CONTROL_TOKEN.search(text):
        raise _InvalidError(f"its {field} holds a control token")
    if _LABEL.fullmatch(text) or not _says_something(text):
        raise _InvalidError(f"its {field} is a label or a number")
    return text


def _without_identifiers(text: str, window: Window) -> str:
    """Without position identifiers that leaked, as `[3]` is one unless the source itself has it."""
    shown, source = set(window.numbers), window.text

    def leaked(match: re.Match[str]) -> str:
        return "" if int(match[1]) in shown and f"[{match[1]}]" not in source else match[0]

    return _IDENTIFIER.sub(leaked, text)


def _says_something(text: str) -> bool:
    """Two words, one of them with a letter; or four letters of a script that may need no spaces."""
    letters = sum(character.isalpha() for character in text)
    return letters > 0 and (len(_WORD.findall(text)) >= 2 or (letters >= 4 and not text.isascii()))

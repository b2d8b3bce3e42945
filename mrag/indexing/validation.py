"""From what a reply holds to records that may be published: everything else has a reason."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mrag.documents.decoding import clean
from mrag.indexing.form import KEY, KEYS, POINTERS, VALUE, Form
from mrag.indexing.grounding import ungrounded
from mrag.indexing.identifiers import names_identifier, without_identifiers
from mrag.indexing.merging import merged
from mrag.indexing.records import Draft
from mrag.indexing.replies import raw_records
from mrag.indexing.tagging import Window
from mrag.models.prompt import CONTROL_TOKEN

VALIDATOR = 6  # counted up when other records are valid than before: what was validated is asked anew


@dataclass(frozen=True)
class Parsed:
    """One reply: the valid records, duplicates merged, and why each other one was rejected."""

    drafts: tuple[Draft, ...]
    rejected: tuple[str, ...] = ()


class _InvalidError(ValueError):
    """Why a record is rejected, in a few words."""


_WORD = re.compile(r"\w+")
_LABEL = re.compile(
    r"(?:key|question|record|unit|paragraph|value|fact|title|section|document|number)s?[\W\d_]*",
    re.IGNORECASE,
)
_KEY_CHARACTERS = 400
_SPARE_CHARACTERS = 200
_CLEARLY = 0.3


def parse(reply: str, window: Window, form: Form) -> Parsed:
    """The records of a reply to `window` that hold what they must."""
    drafts: list[Draft] = []
    rejected: list[str] = []
    for raw in raw_records(reply, form):
        try:
            drafts.append(_validated(raw, window, form, rejected))
        except _InvalidError as reason:
            rejected.append(str(reason))
    return Parsed(merged(drafts, form.max_pointers), tuple(rejected))


def _validated(raw: Mapping[str, Any], window: Window, form: Form, rejected: list[str]) -> Draft:
    """The record; of several keys, those that are none are `rejected` alone, and no more than were
    asked for are kept."""
    pointers = _pointers(raw.get(POINTERS), window, form.max_pointers) if form.pointers else window.numbers
    value = _value(raw, pointers, window) if form.values else window.units[0].text
    keys, reasons = [], []
    for item in _keys(raw, form):
        try:
            keys.append(_key(item, value, window))
        except _InvalidError as reason:
            reasons.append(reason)
    if not keys:
        raise reasons[0]
    rejected += map(str, reasons)
    return Draft(tuple(keys[: form.keys] if form.values else keys), value, pointers)


def _keys(raw: Mapping[str, Any], form: Form) -> list[Any]:
    """What may be keys, at least one of them: a list, or one key alone where several were asked for."""
    found = raw.get(form.key_field)
    if form.key_field == KEYS:
        return (found if isinstance(found, list) else [found or raw.get(KEY)]) or [None]
    return [found]


def _key(item: Any, value: str, window: Window) -> str:
    key = " ".join(_text(item, KEY, window).split())
    if key.casefold() == " ".join(value.split()).casefold():
        raise _InvalidError("its key only repeats its value")
    if len(key) > _KEY_CHARACTERS:
        raise _InvalidError("the key is too long to be one")
    return key


def _value(raw: Mapping[str, Any], pointers: tuple[int, ...], window: Window) -> str:
    value = _text(raw.get(VALUE), VALUE, window)
    source = sum(len(unit.text) for unit in window.units if unit.number in pointers)
    if len(value) > 2 * source + _SPARE_CHARACTERS:
        raise _InvalidError("the value is longer than what it is taken from")
    if _belongs_elsewhere(value, pointers, window):
        raise _InvalidError("its value is taken from a unit that it does not point to")
    if reason := ungrounded(value, window.around(pointers)):
        raise _InvalidError(reason)
    return value


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


def _text(value: Any, field: str, window: Window) -> str:
    if not isinstance(value, str):
        raise _InvalidError(f"it has no {field}")
    text = without_identifiers(clean(value), window).strip()
    if not text:
        raise _InvalidError(f"its {field} is empty")
    if CONTROL_TOKEN.search(text):
        raise _InvalidError(f"its {field} holds a control token")
    if _LABEL.fullmatch(text) or not _says_something(text):
        raise _InvalidError(f"its {field} is a label or a number")
    if names_identifier(text, window):
        raise _InvalidError(f"its {field} names a paragraph by the number of the prompt")
    return text


def _says_something(text: str) -> bool:
    """Two words, one of them with a letter; or four letters of a script that may need no spaces."""
    letters = sum(character.isalpha() for character in text)
    return letters > 0 and (len(_WORD.findall(text)) >= 2 or (letters >= 4 and not text.isascii()))

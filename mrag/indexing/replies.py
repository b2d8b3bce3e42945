"""What a reply to the marker prompt holds: strict JSON first, then whatever can be saved of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mrag.indexing.form import KEY, KEYS, POINTERS, RECORDS, VALUE, Form
from mrag.models.replies import answer_of, objects

Raw = Mapping[str, Any]

_ANY_FIELD = "|".join((POINTERS, KEY, KEYS, VALUE))
# A string ends at a quote before a comma, a bracket or the next field, so that quotes inside need no escape.
_END = rf"""(?=\s*(?:[,}}\]]|["'](?:{_ANY_FIELD})["']\s*:|\Z))"""
_STRINGS = {
    name: re.compile(rf"""["']{name}["']\s*:\s*(?P<quote>["'])(?P<text>.*?)(?P=quote){_END}""", re.DOTALL)
    for name in (KEY, VALUE)
}
_POINTERS = re.compile(rf"""["']{POINTERS}["']\s*:\s*(?:\[[^\]{{}}]*\]|["'][^"'{{}}]*["']|\d+)""")
_KEYS = re.compile(rf"""["']{KEYS}["']\s*:\s*\[(?P<list>.*?)(?:\]\s*(?=[,}}])|\Z)""", re.DOTALL)
_ITEM = re.compile(r"""(?P<quote>["'])(?P<text>.*?)(?P=quote)(?=\s*,|\s+["']|\s*\Z)""", re.DOTALL)
_NAMED = re.compile(r"""["'“”‘’].*}\Z""", re.DOTALL)
_BARE_QUOTE = re.compile(r'(?<!\\)"')
_BAD_ESCAPE = re.compile(r'\\(?!["\\/bfnrtu])')


def raw_records(reply: str, form: Form) -> list[Raw]:
    """The record objects of a reply in order, unchecked; `{}` for an object that is none.

    A reply that was cut keeps its complete records, broken syntax those whose fields can be told.
    """
    answer = answer_of(reply)
    try:
        return list(_records_in(json.loads(answer)))
    except (ValueError, RecursionError):
        return list(_salvaged(answer, form))


def _records_in(tree: Any) -> Iterator[Raw]:
    """Records of any tree: under their list, as a bare list, or alone."""
    if isinstance(tree, dict) and RECORDS in tree:
        yield from _records_in(tree[RECORDS])
    elif isinstance(tree, list):
        for item in tree:
            yield from _records_in(item)
    else:
        yield tree if isinstance(tree, dict) else {}


def _salvaged(answer: str, form: Form) -> Iterator[Raw]:
    """Object by object: one that is JSON counts as it is, one that is not by its fields."""
    for found in objects(answer):
        if not isinstance(found, str):
            yield from _records_in(found)
            continue
        fields = _by_fields(found)
        # What opens around other objects, what was cut, and a formula's braces are no records of their own.
        if fields.keys() >= set(form.fields) or _NAMED.search(found):
            yield fields


def _by_fields(broken: str) -> Raw:
    fields: dict[str, Any] = {}
    if pointers := _POINTERS.search(broken):
        fields[POINTERS] = [int(number) for number in re.findall(r"\d{1,9}", pointers[0])]
    if keys := _KEYS.search(broken):
        fields[KEYS] = [_unescaped(item["text"]) for item in _ITEM.finditer(keys["list"])]
    for name, pattern in _STRINGS.items():
        if string := pattern.search(broken):
            fields[name] = _unescaped(string["text"])
    return fields


def _unescaped(text: str) -> str:
    escaped = _BAD_ESCAPE.sub(r"\\\\", _BARE_QUOTE.sub(r"\"", text.replace("\\'", "'")))
    try:
        return str(json.loads(f'"{escaped}"', strict=False))
    except ValueError:
        return text

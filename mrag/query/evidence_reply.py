"""What is saved of the extractor's reply: its rows, and what it computed from them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mrag.documents.decoding import clean
from mrag.documents.quantities import placed_numbers
from mrag.documents.words import tokens
from mrag.models.replies import answer_of, objects
from mrag.query.blueprints import Blueprint
from mrag.query.derive import Claimed
from mrag.query.evidence_form import MAX_DERIVED
from mrag.query.sheet import Sheet
from mrag.query.verify import Draft
from mrag.settings import SaneReader

MAX_COLUMN_WORDS = 6

_NAMED = re.compile(r'"schema"\s*:\s*"([^"\\]{1,40})"')
_NAME = re.compile(r"(?:OTHER: )?[A-Za-z -]{1,40}")


@dataclass(frozen=True)
class Reply:
    """The rows of a reply, one said twice once, their schema and columns, and what is computed from them.

    `places` says which of them, from 0, each row is that the model wrote; None for what is no row. `beyond`
    counts the rows that the reader's `max_rows` left out.
    """

    drafts: tuple[Draft, ...]
    places: tuple[int | None, ...]
    claimed: tuple[Claimed, ...]
    schema: str
    columns: tuple[str, ...]
    beyond: int = 0


def read_reply(text: str, sheet: Sheet, reader: SaneReader, blueprints: Sequence[Blueprint]) -> Reply:
    """The rows of a reply, whatever surrounds them."""
    answer = answer_of(text)
    blueprints = _named_first(answer, blueprints)
    drafts: list[Draft] = []
    places: list[int | None] = []
    beyond = 0
    for row in _rows(answer):
        draft = _draft(row, sheet, reader, blueprints)
        if draft.cells and draft not in drafts:
            if len(drafts) < reader.max_rows:
                drafts.append(draft)
            else:
                beyond += 1
        places.append(drafts.index(draft) if draft in drafts else None)
    claimed = tuple(_claimed(answer))[:MAX_DERIVED] if reader.derive else ()
    return Reply(tuple(drafts), tuple(places), claimed, *_shape(answer, drafts, blueprints), beyond)


def _tables(text: str) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The objects of a reply, each with the table that it holds, or that it is."""
    for found in objects(text):
        if not isinstance(found, str):
            table = found.get("table")
            yield found, table if isinstance(table, dict) else found


def _rows(text: str) -> Iterator[Mapping[str, Any]]:
    """The rows in order; an empty one for what stands among them and is none."""
    for found, table in _tables(text):
        inner = table.get("rows")
        if isinstance(inner, list):
            yield from (row if isinstance(row, dict) else {} for row in inner)
        elif not _computes(found):
            yield found


def _claimed(text: str) -> Iterator[Claimed]:
    for found, table in _tables(text):
        inner = table.get("derived")
        for item in inner if isinstance(inner, list) else [found]:
            if isinstance(item, dict) and _computes(item):
                rows = tuple(number if type(number) is int else 0 for number in item["from"])
                yield Claimed(str(item["operation"]), rows, _cell(item.get("value")))


def _computes(item: Mapping[str, Any]) -> bool:
    """Whether an object is a derived row, which may stand alone where the table around it is broken."""
    return isinstance(item.get("from"), list) and "operation" in item


def _draft(
    row: Mapping[str, Any], sheet: Sheet, reader: SaneReader, blueprints: Sequence[Blueprint]
) -> Draft:
    cells = {clean(name): text for name, value in row.items() if (text := _cell(value))}
    passage = sheet.passages.get(cells.pop("source", "").strip("[] "))
    written = cells.pop("quote", "")
    for name in ("schema", "evidence quote"):  # a second quote would be shown and not checked
        cells.pop(name, None)
    shape = _blueprint_of(cells, blueprints)
    if shape is None:
        cells = {name: cell for name, cell in cells.items() if _is_label(name)}
    quote = written if reader.quoting == "copied" else passage.text if passage else ""
    ordering = frozenset(column.name for column in shape.cells if column.orders) if shape else frozenset()
    place = passage.place if passage else None
    return Draft(cells, quote, place, ordering, copied=reader.quoting == "copied")


def _blueprint_of(cells: Iterable[str], blueprints: Sequence[Blueprint]) -> Blueprint | None:
    """The first blueprint that has these columns."""
    columns = set(cells)
    return next((one for one in blueprints if columns <= {column.name for column in one.cells}), None)


def _named_first(answer: str, blueprints: Sequence[Blueprint]) -> Sequence[Blueprint]:
    """Two blueprints may share columns: the one that the reply names goes before the other."""
    named = _NAMED.search(answer)
    return sorted(blueprints, key=lambda one: named is None or one.name != named[1])


def _is_label(column: str) -> bool:
    """Whether a column of the model's own states nothing by its name: no check reads it."""
    words = tokens(column)
    named = any(c.isupper() for word in words[1:] for c in word)
    counts = any(c.isdigit() for c in column) or any(True for _ in placed_numbers(column))
    return len(words) <= MAX_COLUMN_WORDS and not named and not counts


def _cell(value: Any) -> str:
    """A JSON value as the text of a cell; empty for null, for anything nested and for `1e400`."""
    if isinstance(value, bool) or value is None or isinstance(value, dict | list):
        return str(value).lower() if isinstance(value, bool) else ""
    if isinstance(value, float) and not math.isfinite(value):
        return ""
    text = " ".join(clean(str(value)).split())
    return "" if text.casefold() in ("null", "none", "n/a") else text


def _shape(
    answer: str, drafts: Iterable[Draft], blueprints: Sequence[Blueprint]
) -> tuple[str, tuple[str, ...]]:
    """The table's schema and columns: a blueprint's where the rows have just its columns."""
    columns = tuple(dict.fromkeys(column for draft in drafts for column in draft.cells))
    if columns and (blueprint := _blueprint_of(columns, blueprints)):
        return blueprint.name, tuple(column.name for column in blueprint.cells)
    named = _NAMED.search(answer)
    return named[1] if named and _NAME.fullmatch(named[1]) else "OTHER", columns

"""SANE eq. 9: one call turns the source units of the selected candidates into an evidence table."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from mrag.documents.decoding import clean
from mrag.documents.quantities import placed_numbers
from mrag.documents.words import tokens
from mrag.errors import InputError
from mrag.models.language_model import LanguageModel, Message, Request
from mrag.models.prompt import one_line, render, room
from mrag.models.replies import answer_of, objects
from mrag.query.blueprints import Blueprint
from mrag.query.sheet import Sheet, cite, lay_out
from mrag.query.verify import ORDER_COLUMNS, Cited, Draft, verify
from mrag.schema import Candidate, EvidenceRow, EvidenceTable, Usage

REPLY_TOKENS = 768
MAX_ROWS = 6
MAX_CELL = 400
MAX_COLUMN_WORDS = 6
Quoting = Literal["pointed", "copied"]

_TEXT = {"type": "string", "maxLength": MAX_CELL}
_NAME = re.compile(r'"schema"\s*:\s*"((?:OTHER: )?[A-Za-z -]{1,40})"')


@dataclass(frozen=True)
class Extraction:
    """The table, verified, and what was noticed."""

    table: EvidenceTable
    usage: Usage = field(default_factory=Usage)
    notes: tuple[str, ...] = ()


class EvidenceExtractor:
    """Asks the model for evidence and checks every row.

    `quoting` says how a row gives its quote. `pointed`: the sheet labels sentences, the row names one,
    and its text is the quote, verbatim by construction. `copied` (the paper): the sheet labels units and
    the model writes the quote out.
    """

    def __init__(
        self, model: LanguageModel, blueprints: Sequence[Blueprint], quoting: Quoting = "pointed"
    ) -> None:
        self._model = model
        self._blueprints = tuple(blueprints)
        self._quoting = quoting

    async def extract(
        self, question: str, candidates: Sequence[Candidate], timeout_s: float | None = None
    ) -> Extraction:
        """The evidence table over the source units, never the values, of the candidates.

        Raises ModelError, and InputError (field `question`) for a question that leaves no room.
        """
        ranked = cite(candidates)
        sheet, messages, notes = self._prompt(question, ranked)
        schema = reply_schema(self._blueprints, list(sheet.passages), self._quoting)
        completion = await self._model.complete(
            Request(messages, self._reply_tokens, "evidence", schema=schema, timeout_s=timeout_s)
        )
        drafts = read_drafts(completion.text, sheet, self._quoting, self._blueprints)
        rows = tuple(verify(draft, ranked) for draft in drafts)
        return Extraction(
            EvidenceTable(*_shape(completion.text, rows, self._blueprints), rows),
            completion.usage,
            notes + _remarks(rows),
        )

    @property
    def _reply_tokens(self) -> int:
        return min(REPLY_TOKENS, self._model.window_tokens // 4)

    def _prompt(
        self, question: str, ranked: Sequence[Cited]
    ) -> tuple[Sheet, tuple[Message, ...], tuple[str, ...]]:
        """As many units, best first, as the window takes."""
        for n in range(len(ranked), 0, -1):
            sheet = lay_out(ranked[:n], by_sentence=self._quoting == "pointed")
            messages = self._messages(question, sheet)
            if room(self._model, messages, self._reply_tokens) >= 0:
                left_out = len(ranked) - n
                notes = (f"{left_out} source units did not fit the model's window.",) if left_out else ()
                return sheet, messages, notes
        raise InputError("question", "The question is too long for the model's window: shorten it.")

    def _messages(self, question: str, sheet: Sheet) -> tuple[Message, ...]:
        name = "evidence" if self._quoting == "pointed" else "evidence-copied"
        return render(
            name,
            blueprints="\n".join(map(describe, self._blueprints)),
            label=sheet.prefix,
            sources=sheet.text,
            question=one_line(question),
        )


def describe(blueprint: Blueprint) -> str:
    """A blueprint as the prompt shows it; quote and source are explained there once for all."""
    columns = "\n".join(f"  - {c.name}: {c.definition}. {c.rules}".rstrip() for c in blueprint.cells)
    return f"{blueprint.name} ({blueprint.structure}). Use when {blueprint.use_when}. Columns:\n{columns}"


def reply_schema(blueprints: Sequence[Blueprint], labels: Sequence[str], quoting: Quoting) -> dict[str, Any]:
    """A table of a blueprint's columns, or of the model's own; sources are the labels shown.

    The name of the schema comes first: it binds what follows, which keeps a small model in the columns.
    """
    tables = [
        _table_schema({"const": blueprint.name}, blueprint, labels, quoting) for blueprint in blueprints
    ]
    own = _table_schema({"type": "string", "pattern": "^OTHER: [A-Za-z -]{1,40}$"}, None, labels, quoting)
    return {
        "type": "object",
        "properties": {"table": {"anyOf": [*tables, own]}},
        "required": ["table"],
        "additionalProperties": False,
    }


def _table_schema(
    name: Mapping[str, Any], blueprint: Blueprint | None, labels: Sequence[str], quoting: Quoting
) -> dict[str, Any]:
    row = _row_schema([c.name for c in blueprint.cells] if blueprint else [], labels, quoting)
    if blueprint is None:
        row["additionalProperties"] = _TEXT
    return {
        "type": "object",
        "properties": {"schema": name, "rows": {"type": "array", "maxItems": MAX_ROWS, "items": row}},
        "required": ["schema", "rows"],
        "additionalProperties": False,
    }


def _row_schema(columns: Sequence[str], labels: Sequence[str], quoting: Quoting) -> dict[str, Any]:
    properties: dict[str, Any] = {"quote": _TEXT} if quoting == "copied" else {}
    properties |= dict.fromkeys(columns, _TEXT)
    properties["source"] = {"type": "string", "enum": list(labels)}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def read_drafts(reply: str, sheet: Sheet, quoting: Quoting, blueprints: Sequence[Blueprint]) -> list[Draft]:
    """The rows of a reply, whatever surrounds them; a row said twice once."""
    drafts: list[Draft] = []
    for row in _rows(answer_of(reply)):
        draft = _draft(row, sheet, quoting, blueprints)
        if draft.cells and draft not in drafts:
            drafts.append(draft)
    return drafts[:MAX_ROWS]


def _rows(text: str) -> Iterator[Mapping[str, Any]]:
    for found in objects(text):
        if isinstance(found, str):
            continue
        table = found.get("table")
        inner = (table if isinstance(table, dict) else found).get("rows")
        yield from (row for row in (inner if isinstance(inner, list) else [found]) if isinstance(row, dict))


def _draft(row: Mapping[str, Any], sheet: Sheet, quoting: Quoting, blueprints: Sequence[Blueprint]) -> Draft:
    cells = {clean(name): text for name, value in row.items() if (text := _cell(value))}
    passage = sheet.passages.get(cells.pop("source", "").strip("[] "))
    written = cells.pop("quote", "")
    for name in ("schema", "evidence quote"):  # a second quote would be shown and not checked
        cells.pop(name, None)
    shape = _blueprint_of(cells, blueprints)
    if shape is None:
        cells = {name: cell for name, cell in cells.items() if _is_label(name)}
    quote = written if quoting == "copied" else passage.text if passage else ""
    ordering = ORDER_COLUMNS & {column.name for column in shape.cells} if shape else frozenset[str]()
    return Draft(cells, quote, passage.place if passage else None, ordering)


def _blueprint_of(cells: Iterable[str], blueprints: Sequence[Blueprint]) -> Blueprint | None:
    """The blueprint whose columns these are."""
    columns = set(cells)
    return next((one for one in blueprints if columns <= {column.name for column in one.cells}), None)


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
    reply: str, rows: Sequence[EvidenceRow], blueprints: Sequence[Blueprint]
) -> tuple[str, tuple[str, ...]]:
    """The table's schema and columns: a blueprint's where the rows have just its columns."""
    columns = tuple(dict.fromkeys(column for row in rows for column in row.cells))
    if columns and (blueprint := _blueprint_of(columns, blueprints)):
        return blueprint.name, tuple(column.name for column in blueprint.cells)
    named = _NAME.search(reply)
    return named[1] if named else "OTHER", columns


def _remarks(rows: Sequence[EvidenceRow]) -> tuple[str, ...]:
    if not rows:
        return ("No evidence was extracted.",)
    facts = len(EvidenceTable("", (), tuple(rows)).facts)
    return (
        (f"{len(rows) - facts} of {len(rows)} evidence rows could not be verified.",)
        if facts < len(rows)
        else ()
    )

"""A table as lines, one a row, in which every cell keeps the heads of its row and of its column."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_OPENING = re.compile(r"[-–—(+]*[$€£¥₹]\(?|\(")
_CLOSING = re.compile(r"[)%‰]+")
_FIGURE = re.compile(
    r"(?:[-–—+(]*\s*[$€£¥₹]?\s*[-–(]*\s*[.,]?\d(?:[\d.,'’\u00a0\u202f]*\d)?(?: \d{3})*"
    r"\s*(?:[%‰x)€]|bps?|pp|bn|mn?|k)*|[-–—]+)(?:\s*(?:\(\w\)|\*+|†))?"
)
_DATE = re.compile(r"(?:19|20)\d\d[A-Z]?(?:\s*(?:\(\w\)|\*+))?|\d{1,2}\.\d{1,2}\.(?:\d\d){1,2}")
_MOSTLY = 0.75
_LONGEST_FIGURE = 40
_LONGEST_HEAD = 160


@dataclass(frozen=True)
class Cell:
    """The text of a table's cell, on one line, in the columns [column, column + span), counted from 0."""

    column: int
    text: str
    span: int = 1

    @property
    def end(self) -> int:
        """The column after its last one."""
        return self.column + self.span


@dataclass(frozen=True)
class Row:
    """The cells of one row that are not empty, from left to right. `is_head`: the format says so."""

    cells: tuple[Cell, ...]
    is_head: bool = False

    @property
    def values(self) -> tuple[Cell, ...]:
        """The cells beside the row's head, which is what stands in the first column."""
        return tuple(cell for cell in self.cells if cell.column > 0)

    @property
    def has_figures(self) -> bool:
        """Whether a number stands beside the row's head."""
        return any(is_figure(cell.text) for cell in self.values)


def is_figure(text: str) -> bool:
    """Whether a cell holds a number (or the dash for none), and not a year or a date."""
    return len(text) <= _LONGEST_FIGURE and bool(_FIGURE.fullmatch(text)) and not is_date(text)


def is_date(text: str) -> bool:
    """Whether a cell is a bare year or date in digits, as heads of columns are."""
    return bool(_DATE.fullmatch(text))


def opens_figure(text: str) -> bool:
    """Whether a cell is but the sign before a number that has a cell of its own: `$`."""
    return len(text) <= _LONGEST_FIGURE and bool(_OPENING.fullmatch(text))


def closes_figure(text: str) -> bool:
    """Whether a cell is but the sign after a number that has a cell of its own: `)`, `%`."""
    return bool(_CLOSING.fullmatch(text))


def table_text(rows: Sequence[Row]) -> str:
    """`| row head | column head: value | ...` for each row; a row of column heads as it stands.

    Heads of several rows, one above the other, follow each other. Where the format names no row of
    heads, the rows without a figure above columns of figures are taken for it.
    """
    joined = [_signed(row) for row in rows if row.cells]
    named = any(row.is_head for row in joined)
    heads: list[Row] = []
    has_body = False
    lines = []
    for row, is_head in zip(joined, _named(joined) if named else _inferred(joined), strict=True):
        if is_head:
            heads = [row] if has_body else [*heads, row]
            has_body = False
        elif row.values:
            has_body = True
        lines.append(_line(row, [] if is_head else heads))
    return "\n".join(lines)


def _line(row: Row, heads: Sequence[Row]) -> str:
    return "| " + " | ".join(_headed(cell, heads) for cell in row.cells)


def _headed(cell: Cell, heads: Sequence[Row]) -> str:
    """The cell behind its column's heads; one that spans several heads of a row belongs to none.

    A head of a paragraph's length is not repeated.
    """
    above = [_over(cell, row) for row in heads]
    if not cell.column or any(len(texts) > 1 for texts in above):
        return cell.text
    head = " ".join(dict.fromkeys(text for texts in above for text in texts))
    return f"{head.removesuffix(':')}: {cell.text}" if 0 < len(head) <= 2 * _LONGEST_HEAD else cell.text


def _over(cell: Cell, heads: Row) -> list[str]:
    return [head.text for head in heads.values if head.column < cell.end and cell.column < head.end]


def _signed(row: Row) -> Row:
    """The row with each number and its signs in one cell, where they have several."""
    cells: list[Cell] = []
    for cell in row.cells:
        last = cells[-1] if cells else None
        if last and (
            (opens_figure(last.text) and is_figure(cell.text))
            or (closes_figure(cell.text) and last.text[-1].isdigit())
        ):
            cells[-1] = Cell(last.column, last.text + cell.text, cell.end - last.column)
        else:
            cells.append(cell)
    return Row(tuple(cells), row.is_head)


# --------------------------------------------------------------------------- which rows are heads


def _named(rows: Sequence[Row]) -> Iterator[bool]:
    yield from (row.is_head and bool(row.values) for row in rows)


def _inferred(rows: Sequence[Row]) -> list[bool]:
    first = next((at for at, row in enumerate(rows) if row.has_figures), None)
    if first is None:
        return [at == 0 and _looks_headed(rows) for at in range(len(rows))]
    leading = _leading(rows[:first])
    heads = [row for row, is_head in zip(rows, leading, strict=False) if is_head]
    if not any(map(_is_surely_head, heads)) and not _has_column_of_figures(rows[first:]):
        leading, heads = [False] * first, []
    known = {cell.text for row in heads for cell in row.values}
    return [*leading, *(_interrupts(row, known) for row in rows[first:])]


def _looks_headed(rows: Sequence[Row]) -> bool:
    """A table of words alone: three columns or more, and the first row fills them all."""
    width = max((row.cells[-1].end for row in rows), default=0)
    return len(rows) > 2 and width > 2 and len(rows[0].cells) == width


def _leading(rows: Sequence[Row]) -> list[bool]:
    """Of the rows before the first figure, those of heads: until one has a head for what is headed already.

    Years, and words that go on with a small letter, still belong to the heads above them.
    """
    headed: set[int] = set()
    flags = []
    for row in rows:
        columns = {cell.column for cell in row.values if cell.span == 1}
        goes_on = _all_dates(row) or all(cell.text[0].islower() for cell in row.values)
        repeats = columns <= headed and row.cells[0].column == 0 and not goes_on
        flags.append(_may_be_head(row) and not (columns and repeats))
        headed |= columns
    return flags


def _may_be_head(row: Row) -> bool:
    return bool(row.values) and all(len(cell.text) <= _LONGEST_HEAD for cell in row.values)


def _is_surely_head(row: Row) -> bool:
    """Years alone, or nothing where the row's head would be."""
    return _all_dates(row) or row.cells[0].column > 0


def _has_column_of_figures(body: Sequence[Row]) -> bool:
    """Whether a column holds mostly figures; where none does, the first row may be like the others."""
    below: dict[int, list[bool]] = {}
    for row in body:
        for cell in row.values:
            below.setdefault(cell.column, []).append(is_figure(cell.text))
    return any(sum(flags) >= _MOSTLY * len(flags) for flags in below.values())


def _interrupts(row: Row, known: set[str]) -> bool:
    """New heads further down: years alone, heads that were there before, words over the cells alone."""
    if row.has_figures or not _may_be_head(row):
        return False
    is_repeated = all(cell.text in known for cell in row.values)
    return is_repeated or _is_surely_head(row)


def _all_dates(row: Row) -> bool:
    return bool(row.values) and all(is_date(cell.text) for cell in row.values)

"""Tables on a PDF page, told by their columns: no rules need be drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mrag.documents.pages.columns import Placed, columns_of, placed_line
from mrag.documents.pages.lines import Line
from mrag.documents.pages.runs import TIGHT, heads_above, is_gapped, table_end
from mrag.documents.tables import Cell, Row, is_figure

_MOST_LINES_OF_A_ROW = 8
_SHARE_IN_COLUMNS = 0.7


class Section(NamedTuple):
    """Lines of text, or a table: then `rows` has what they say."""

    lines: list[Line]
    rows: list[Row]


def sections(lines: Sequence[Line]) -> Iterator[Section]:
    """All lines in their order, tables apart from text."""
    text: list[Line] = []
    at = 0
    while at < len(lines):
        end = table_end(lines, at)
        above = heads_above(text, lines[at:end])
        table = [*text[len(text) - above :], *lines[at:end]]
        if rows := _rows(table):
            if text := text[: len(text) - above]:
                yield Section(text, [])
            yield Section(table, rows)
            text = []
        else:
            text += lines[at:end]
        at = end
    if text:
        yield Section(text, [])


def _rows(lines: Sequence[Line]) -> list[Row]:
    """The rows of a table; none where the gaps of the lines are not above each other."""
    gapped = [line for line in lines if is_gapped(line)]
    if len(gapped) < 2:
        return []
    columns = columns_of(gapped)
    if len(columns) < 2:
        return []
    placed = [placed_line(line, columns) for line in lines]
    filled = sum(len({each.column for each in line}) > 1 for line in placed)
    return [_row(group) for group in _whole_rows(placed)] if filled >= _SHARE_IN_COLUMNS * len(gapped) else []


# --------------------------------------------------------------------------- rows of several lines


def _whole_rows(lines: Sequence[list[Placed]]) -> Iterator[list[list[Placed]]]:
    """Lines of one row together: a cell is drawn as a whole before the next one begins.

    Where that would make rows of several figures, the table was drawn column by column: a line is a row.
    """
    groups: list[list[list[Placed]]] = []
    drawn = -1
    for line in lines:
        orders = [each.piece.order for each in line]
        if groups and (min(orders) < drawn or _goes_on(line, groups[-1][-1])):
            groups[-1].append(line)
            drawn = max(drawn, *orders)
        else:
            groups.append([line])
            drawn = max(orders)
    for group in groups:
        if _is_one_row(group) and (len(groups) > 1 or len(lines) < 3):
            yield group
        else:
            yield from ([line] for line in group)


def _goes_on(line: Sequence[Placed], above: Sequence[Placed]) -> bool:
    """Whether a line continues the one above: its words in small letters, or a row head with figures."""
    if line[0].piece.top - above[0].piece.bottom > TIGHT * line[0].piece.size:
        return False
    if line[0].column > 0:
        if above[-1].column == 0 and any(is_figure(each.piece.text) for each in line):
            return True
        columns = {each.column for each in above}
        return all(each.column in columns and each.piece.text[0].islower() for each in line)
    has_cells, had_cells = line[-1].column > 0, above[-1].column > 0
    return above[0].column == 0 and not (has_cells and had_cells) and line[0].piece.text[0].islower()


def _is_one_row(group: Sequence[Sequence[Placed]]) -> bool:
    """Not where a column has several figures, or a head of several columns stands above theirs."""
    if len(group) == 1 or len(group) > _MOST_LINES_OF_A_ROW:
        return len(group) == 1
    figures = [each.column for line in group for each in line if is_figure(each.piece.text)]
    places = {(each.column, each.span) for line in group for each in line}
    columns = [column for first, span in places for column in range(first, first + span)]
    return len(figures) == len(set(figures)) and len(columns) == len(set(columns))


def _row(group: Sequence[Sequence[Placed]]) -> Row:
    texts: dict[int, list[str]] = {}
    spans: dict[int, int] = {}
    for column, span, piece in (each for line in group for each in line):
        texts.setdefault(column, []).append(piece.text)
        spans[column] = max(span, spans.get(column, 1))
    return Row(tuple(Cell(column, " ".join(texts[column]), spans[column]) for column in sorted(texts)))

"""Tables on a PDF page, told by their columns: no rules need be drawn."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from mrag.documents.pages.glyphs import Piece
from mrag.documents.pages.lines import Line
from mrag.documents.tables import Cell, Row, is_date, is_figure

Column = tuple[float, float]  # where it begins and ends

_FAR = 4.0  # line heights that end a table
_TIGHT = 0.8
_STUB_OVERLAP = 3.0
_CLEAR_GAP = 0.45
_CENTRED = 1.0
_MOST_SINGLE_LINES = 8
_MOST_HEADS_ABOVE = 3
_MOST_COLUMNS = 64
_MOST_LINES_OF_A_ROW = 8
_SHARE_IN_COLUMNS = 0.7
_OVERLAP = 0.25


class Section(NamedTuple):
    """Lines of text, or a table: then `rows` has what they say."""

    lines: list[Line]
    rows: list[Row]


def sections(lines: Sequence[Line]) -> Iterator[Section]:
    """All lines in their order, tables apart from text."""
    text: list[Line] = []
    at = 0
    while at < len(lines):
        end = _table_end(lines, at)
        above = _heads_above(text, lines[at:end])
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


def _table_end(lines: Sequence[Line], at: int) -> int:
    """The line after the last one of those that have gaps, few without any between them."""
    if len(lines[at].pieces) < 2:
        return at + 1
    run = _Run(lines[at])
    last, end = at, at + 1
    while end < len(lines) and end - last <= _MOST_SINGLE_LINES:
        line = lines[end]
        if line.top - lines[end - 1].bottom > _FAR * line.size:
            break
        if len(line.pieces) > 1:
            if not run.takes(line, singles=end - last - 1):
                break
            last = end
            run.add(line)
        elif run.is_crossed_by(line):
            break
        end += 1
    end = last + 1
    while end < len(lines) and _ends_row(lines[end], lines[end - 1]):
        end += 1
    return end


def _ends_row(line: Line, above: Line) -> bool:
    """Whether a line without gaps is the rest of a cell: drawn before the row's end, or in small letters."""
    if len(line.pieces) > 1 or line.top - above.bottom > _TIGHT * line.size:
        return False
    drawn = max(piece.order for piece in above.pieces)
    return line.pieces[0].order < drawn or (line.text[0].islower() and line.left >= above.left)


class _Run:
    """The lines with gaps of one table, as far as they are known."""

    def __init__(self, first: Line) -> None:
        self._stub = first.left
        self._cells: list[float] = []
        self._widest: Line | None = None
        self.add(first)

    def add(self, line: Line) -> None:
        """One more line of the table."""
        self._last = line
        self._stub = min(self._stub, line.left)
        insort(self._cells, line.pieces[1].left)
        if _has_figures(line) and (self._widest is None or len(line.pieces) > len(self._widest.pieces)):
            self._widest = line

    def takes(self, line: Line, singles: int) -> bool:
        """Whether the line is of this table; `singles` is the number of lines without gaps before it."""
        if self._widest is None:
            return True
        is_wordy = not _has_figures(line)
        if is_wordy and self._begins_anew(line):
            return False
        if not singles:
            return True
        if is_wordy and len(line.pieces) != len(self._widest.pieces):
            return False
        stands_under = all(_overlaps(piece, self._widest.pieces) for piece in line.pieces[1:])
        return stands_under and len(line.pieces) <= len(self._widest.pieces) + 1

    def _begins_anew(self, line: Line) -> bool:
        """Heads of columns after figures: years alone, or words over the cells only."""
        are_years = all(is_date(piece.text) for piece in line.pieces[1:])
        return are_years or line.left > max(self._begin(line), self._stub + line.size)

    def is_crossed_by(self, line: Line) -> bool:
        """A note, a line of prose from row heads to the last cells, or a title in the middle of both."""
        is_prose = line.left < _first_cell(self._cells) and line.right > self._last.pieces[-1].left
        is_indented = self._stub + line.size < line.left < self._begin(line)
        return line.is_item or is_prose or (is_indented and line.right > _first_cell(self._cells))

    def _begin(self, line: Line) -> float:
        return _first_cell(self._cells) - _STUB_OVERLAP * line.size


def _has_figures(line: Line) -> bool:
    return any(is_figure(piece.text) for piece in line.pieces[1:])


def _overlaps(piece: Piece, others: Sequence[Piece]) -> bool:
    return any(piece.left < other.right and other.left < piece.right for other in others)


def _first_cell(lefts: Sequence[float]) -> float:
    """Where the cells begin, of the sorted places where they do; few may lie further to the left."""
    return lefts[len(lefts) // 4]


def _heads_above(text: Sequence[Line], table: Sequence[Line]) -> int:
    """How many lines right above stand over the cells alone: heads of several columns."""
    gapped = [line for line in table if len(line.pieces) > 1]
    if not gapped:
        return 0
    first_cell = _first_cell(sorted(line.pieces[1].left for line in gapped))
    row_heads = (line.pieces[0].right for line in gapped)
    beside_heads = max((right for right in row_heads if right < first_cell), default=0.0)
    above, below = 0, table[0]
    while above < min(len(text), _MOST_HEADS_ABOVE):
        line = text[-1 - above]
        is_over = 2 * line.left > beside_heads + first_cell and line.right > first_cell - line.size
        if not is_over or below.top - line.bottom > line.size:
            break
        above, below = above + 1, line
    return above


# --------------------------------------------------------------------------- columns


class _Placed(NamedTuple):
    """A piece in the columns [column, column + span)."""

    column: int
    span: int
    piece: Piece


def _rows(lines: Sequence[Line]) -> list[Row]:
    """The rows of a table; none where the gaps of the lines are not above each other."""
    gapped = [line for line in lines if len(line.pieces) > 1]
    if len(gapped) < 2:
        return []
    columns = _columns(gapped)
    if len(columns) > _MOST_COLUMNS:
        return []
    columns = _widened(_joined(columns, gapped), gapped)
    placed = [_placed_line(line, columns) for line in lines]
    filled = sum(len({each.column for each in line}) > 1 for line in placed)
    if len(columns) < 2 or filled < _SHARE_IN_COLUMNS * len(gapped):
        return []
    return [_row(group) for group in _whole_rows(placed)]


def _columns(lines: Sequence[Line]) -> list[Column]:
    """Where most lines have text, from left to right; heads of several columns don't count."""
    typical = median(len(line.pieces) for line in lines)
    full = [line for line in lines if len(line.pieces) >= typical]
    spare = len(full) // 10
    edges = sorted(edge for line in full for piece in line.pieces for edge in _edges(piece))
    columns: list[Column] = []
    depth, start = 0, 0.0
    for at, step in edges:
        if depth <= spare < depth + step:
            start = at
        elif depth + step <= spare < depth:
            columns.append((start, at))
        depth += step
    return columns


def _joined(columns: Sequence[Column], lines: Sequence[Line]) -> list[Column]:
    """The columns, two of them as one where no line has text in both: a head beside its figures."""
    used = [{_place(piece, columns).column for piece in line.pieces} for line in lines]
    joined: list[tuple[set[int], Column]] = []
    for number, (left, right) in enumerate(columns):
        if joined and not any(number in line and joined[-1][0] & line for line in used):
            numbers, (start, _) = joined.pop()
            joined.append(({*numbers, number}, (start, right)))
        else:
            joined.append(({number}, (left, right)))
    return [column for _, column in joined]


def _widened(columns: Sequence[Column], lines: Sequence[Line]) -> list[Column]:
    """The columns with all that stands in one of them, on lines that fill them all: their heads above all."""
    wide = list(columns)
    for line in lines:
        parts = [_place(part, columns) for piece in line.pieces for part in _parts(piece, columns)]
        if len({each.column for each in parts}) == len(parts) >= len(columns) - 1:
            for column, span, piece in parts:
                if span == 1:
                    left, right = wide[column]
                    wide[column] = min(left, piece.left), max(right, piece.right)
    return wide


def _edges(piece: Piece) -> tuple[tuple[float, int], tuple[float, int]]:
    return (piece.left, 1), (piece.right, -1)


def _placed_line(line: Line, columns: Sequence[Column]) -> list[_Placed]:
    parts = [part for piece in line.pieces for part in _parts(piece, columns)]
    placed = [_place(part, columns) for part in parts]
    rules = Counter(part.rule for part in parts)
    taken = {column for each in placed for column in range(each.column, each.column + each.span)}
    return [_reaching(each, columns, taken, rules[each.piece.rule] == 1) for each in placed]


def _reaching(head: _Placed, columns: Sequence[Column], taken: set[int], has_own_rule: bool) -> _Placed:
    """A head of several columns over all of them: over its rule, or else over those in whose middle it is."""
    piece = head.piece
    if not head.column or is_figure(piece.text):
        return head
    if piece.rule and has_own_rule:
        ruled = [number for number, column in enumerate(columns) if _share(piece.rule, column) > _OVERLAP]
        return _Placed(ruled[0], len(ruled), piece) if ruled and ruled[0] else head
    if len(taken) == head.span and _is_over_all(head, columns):
        return _Placed(1, len(columns) - 1, piece)
    is_between = 0 not in taken and len(taken) > head.span and not _is_amid(piece, [columns[head.column]])
    return _centred(head, columns, taken) if head.span > 1 or is_between else head


def _is_over_all(placed: _Placed, columns: Sequence[Column]) -> bool:
    """Whether a piece alone on its line is a head of all columns, and no line of one column's head."""
    if not _is_amid(placed.piece, columns[1:]):
        return False
    own = columns[placed.column : placed.column + placed.span]
    is_wider = placed.piece.right - placed.piece.left > own[-1][1] - own[0][0]
    return is_wider or not _is_amid(placed.piece, own)


def _is_amid(piece: Piece, columns: Sequence[Column]) -> bool:
    """Whether a piece stands in the middle of some columns."""
    away = (piece.left + piece.right - columns[0][0] - columns[-1][1]) / 2
    return abs(away) < _CENTRED * piece.size


def _parts(piece: Piece, columns: Sequence[Column]) -> Iterator[Piece]:
    """The piece, split where a gap between two of its words lies between two columns."""
    words = [piece.words[0]]
    for last, word in pairwise(piece.words):
        middle = (last.right + word.left) / 2
        is_between = any(left <= middle <= right for left, right in _gutters(columns))
        if is_between and word.left - last.right > _CLEAR_GAP * piece.size:
            yield replace(piece, words=tuple(words))
            words = []
        words.append(word)
    yield replace(piece, words=tuple(words))


def _gutters(columns: Sequence[Column]) -> Iterator[Column]:
    yield from ((left[1], right[0]) for left, right in pairwise(columns))


def _centred(head: _Placed, columns: Sequence[Column], taken: set[int]) -> _Placed:
    """A head of several columns over all those in whose middle it stands."""
    best = head
    for first in range(head.column, 0, -1):
        if first < head.column and first in taken:
            break
        for end in range(head.column + head.span, len(columns) + 1):
            if end > head.column + head.span and end - 1 in taken:
                break
            if end - first > best.span and _is_amid(head.piece, columns[first:end]):
                best = _Placed(first, end - first, head.piece)
    return best


def _share(span: Column, column: Column) -> float:
    """Of the narrower one, the part that stands above or below the other."""
    both = min(span[1], column[1]) - max(span[0], column[0])
    return both / max(min(span[1] - span[0], column[1] - column[0]), 1e-6)


def _place(piece: Piece, columns: Sequence[Column]) -> _Placed:
    width = (piece.left, piece.right)
    over = [number for number, column in enumerate(columns) if _share(width, column) > _OVERLAP]
    if over:
        return _Placed(over[0], over[-1] - over[0] + 1, piece)
    middle = (piece.left + piece.right) / 2
    away = [abs(middle - (left + right) / 2) for left, right in columns]
    return _Placed(away.index(min(away)) if away else 0, 1, piece)


# --------------------------------------------------------------------------- rows of several lines


def _whole_rows(lines: Sequence[list[_Placed]]) -> Iterator[list[list[_Placed]]]:
    """Lines of one row together: a cell is drawn as a whole before the next one begins.

    Where that would make rows of several figures, the table was drawn column by column: a line is a row.
    """
    groups: list[list[list[_Placed]]] = []
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


def _goes_on(line: Sequence[_Placed], above: Sequence[_Placed]) -> bool:
    """Whether a line continues the one above: its words in small letters, or a row head with figures."""
    if line[0].piece.top - above[0].piece.bottom > _TIGHT * line[0].piece.size:
        return False
    if line[0].column > 0:
        if above[-1].column == 0 and any(is_figure(each.piece.text) for each in line):
            return True
        columns = {each.column for each in above}
        return all(each.column in columns and each.piece.text[0].islower() for each in line)
    has_cells, had_cells = line[-1].column > 0, above[-1].column > 0
    return above[0].column == 0 and not (has_cells and had_cells) and line[0].piece.text[0].islower()


def _is_one_row(group: Sequence[Sequence[_Placed]]) -> bool:
    """Not where a column has several figures, or a head of several columns stands above theirs."""
    if len(group) == 1 or len(group) > _MOST_LINES_OF_A_ROW:
        return len(group) == 1
    figures = [each.column for line in group for each in line if is_figure(each.piece.text)]
    places = {(each.column, each.span) for line in group for each in line}
    columns = [column for first, span in places for column in range(first, first + span)]
    return len(figures) == len(set(figures)) and len(columns) == len(set(columns))


def _row(group: Sequence[Sequence[_Placed]]) -> Row:
    texts: dict[int, list[str]] = {}
    spans: dict[int, int] = {}
    for column, span, piece in (each for line in group for each in line):
        texts.setdefault(column, []).append(piece.text)
        spans[column] = max(span, spans.get(column, 1))
    return Row(tuple(Cell(column, " ".join(texts[column]), spans[column]) for column in sorted(texts)))

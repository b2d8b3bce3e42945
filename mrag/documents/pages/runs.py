"""Which lines of a PDF page belong to one table: those with gaps, and few between them."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence

from mrag.documents.pages.glyphs import Piece
from mrag.documents.pages.lines import Line
from mrag.documents.tables import is_date, is_figure

TIGHT = 0.8  # line heights between two lines of a row

_FAR = 4.0  # line heights that end a table
_STUB_OVERLAP = 3.0
_MOST_SINGLE_LINES = 8
_MOST_HEADS_ABOVE = 3
_MOST_PIECES = 128


def is_gapped(line: Line) -> bool:
    """Whether a line may be a row with cells."""
    return 1 < len(line.pieces) <= _MOST_PIECES


def table_end(lines: Sequence[Line], at: int) -> int:
    """The line after the last one of those that have gaps, few without any between them."""
    if not is_gapped(lines[at]):
        return at + 1
    run = _Run(lines[at])
    last, end = at, at + 1
    while end < len(lines) and end - last <= _MOST_SINGLE_LINES:
        line = lines[end]
        if line.top - lines[end - 1].bottom > _FAR * line.size:
            break
        if is_gapped(line):
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
    if is_gapped(line) or line.top - above.bottom > TIGHT * line.size:
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


def heads_above(text: Sequence[Line], table: Sequence[Line]) -> int:
    """How many lines right above stand over the cells alone: heads of several columns."""
    gapped = [line for line in table if is_gapped(line)]
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

"""The columns of a table on a PDF page, and which of them each piece stands in or over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from mrag.documents.pages.glyphs import Piece
from mrag.documents.pages.lines import Line
from mrag.documents.tables import is_figure

Column = tuple[float, float]  # where it begins and ends

_CLEAR_GAP = 0.45  # line heights
_CENTRED = 1.0
_OVERLAP = 0.25
_MOST_COLUMNS = 64


class Placed(NamedTuple):
    """A piece in the columns [column, column + span)."""

    column: int
    span: int
    piece: Piece


def columns_of(lines: Sequence[Line]) -> list[Column]:
    """The columns of lines with gaps, from left to right; none where there are absurdly many."""
    columns = _columns(lines)
    return [] if len(columns) > _MOST_COLUMNS else _widened(_joined(columns, lines), lines)


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


def placed_line(line: Line, columns: Sequence[Column]) -> list[Placed]:
    """The pieces of a line in their columns, heads over all that they are heads of."""
    parts = [part for piece in line.pieces for part in _parts(piece, columns)]
    placed = [_place(part, columns) for part in parts]
    rules = Counter(part.rule for part in parts)
    taken = {column for each in placed for column in range(each.column, each.column + each.span)}
    return [_reaching(each, columns, taken, rules[each.piece.rule] == 1) for each in placed]


def _reaching(head: Placed, columns: Sequence[Column], taken: set[int], has_own_rule: bool) -> Placed:
    """A head of several columns over all of them: over its rule, or else over those in whose middle it is."""
    piece = head.piece
    if not head.column or is_figure(piece.text):
        return head
    if piece.rule and has_own_rule:
        ruled = [number for number, column in enumerate(columns) if _share(piece.rule, column) > _OVERLAP]
        return Placed(ruled[0], len(ruled), piece) if ruled and ruled[0] else head
    if len(taken) == head.span and _is_over_all(head, columns):
        return Placed(1, len(columns) - 1, piece)
    is_between = 0 not in taken and len(taken) > head.span and not _is_amid(piece, [columns[head.column]])
    return _centred(head, columns, taken) if head.span > 1 or is_between else head


def _is_over_all(placed: Placed, columns: Sequence[Column]) -> bool:
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


def _centred(head: Placed, columns: Sequence[Column], taken: set[int]) -> Placed:
    """A head of several columns over all those in whose middle it stands."""
    best = head
    for first in range(head.column, 0, -1):
        if first < head.column and first in taken:
            break
        for end in range(head.column + head.span, len(columns) + 1):
            if end > head.column + head.span and end - 1 in taken:
                break
            if end - first > best.span and _is_amid(head.piece, columns[first:end]):
                best = Placed(first, end - first, head.piece)
    return best


def _share(span: Column, column: Column) -> float:
    """Of the narrower one, the part that stands above or below the other."""
    both = min(span[1], column[1]) - max(span[0], column[0])
    return both / max(min(span[1] - span[0], column[1] - column[0]), 1e-6)


def _place(piece: Piece, columns: Sequence[Column]) -> Placed:
    width = (piece.left, piece.right)
    over = [number for number, column in enumerate(columns) if _share(width, column) > _OVERLAP]
    if over:
        return Placed(over[0], over[-1] - over[0] + 1, piece)
    middle = (piece.left + piece.right) / 2
    away = [abs(middle - (left + right) / 2) for left, right in columns]
    return Placed(away.index(min(away)) if away else 0, 1, piece)

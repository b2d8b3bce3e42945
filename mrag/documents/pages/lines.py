"""The lines of a PDF page: pieces side by side, in columns of prose one column after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mrag.documents.pages.glyphs import Piece, Word
from mrag.documents.tables import closes_figure, is_date, is_figure, opens_figure

_BULLET = re.compile(r"[•●○◦▪■▶➢✓‣·*–-]|\(?(?:\d{1,2}|[A-Za-z]|[ivx]{1,4})[.)]")
_TO_BULLET = 5.0  # line heights between a bullet and its text
_NEAR = 1.0
_COLUMN_BREAK = 6.0  # a jump up by more lines than the cells of a table mostly have
_LOOK_BACK = 200


@dataclass(frozen=True)
class Line:
    """Pieces that stand beside each other, from left to right, with wide gaps between them."""

    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        """All words, a space between two of them."""
        return " ".join(piece.text for piece in self.pieces)

    @property
    def left(self) -> float:
        """Where it begins."""
        return self.pieces[0].left

    @property
    def right(self) -> float:
        """Where it ends."""
        return max(piece.right for piece in self.pieces)

    @property
    def top(self) -> float:
        """Its upper edge."""
        return min(piece.top for piece in self.pieces)

    @property
    def bottom(self) -> float:
        """Its lower edge."""
        return max(piece.bottom for piece in self.pieces)

    @property
    def size(self) -> float:
        """The height of its tallest piece."""
        return max(piece.size for piece in self.pieces)

    @property
    def bold(self) -> bool:
        """Whether all of it is."""
        return all(piece.bold for piece in self.pieces)

    @property
    def is_item(self) -> bool:
        """Whether it begins with a bullet or number."""
        return len(self.pieces[0].words) > 1 and bool(_BULLET.fullmatch(self.pieces[0].words[0].text))


def reading_order(pieces: Sequence[Piece]) -> list[list[Line]]:
    """The lines of each flow, downward. A flow is the page, or one of its columns of prose.

    Prose in columns is drawn column by column and a table row by row: that, not the gap, tells them apart.
    """
    flows: list[list[Piece]] = []
    for flow in _flows(pieces):
        if flows and _is_column_of_figures(flow, flows[-1]):
            flows[-1] += flow
        else:
            flows.append(flow)
    return [lines_of(flow) for flow in flows]


def _flows(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    flow: list[Piece] = []
    for piece in pieces:
        if flow and _begins_column(piece, flow):
            yield flow
            flow = []
        flow.append(piece)
    if flow:
        yield flow


def _begins_column(piece: Piece, flow: Sequence[Piece]) -> bool:
    """Whether drawing goes on far above where it was, beside all that stands there."""
    if piece.bottom > flow[-1].top - _COLUMN_BREAK * piece.size:
        return False
    beside = (other for other in flow[-_LOOK_BACK:] if other.bottom > piece.top)
    return all(piece.left >= other.right or piece.right <= other.left for other in beside)


def _is_column_of_figures(flow: Sequence[Piece], before: Sequence[Piece]) -> bool:
    """A column of a table that was drawn column by column: it belongs to the rows beside it."""
    figures = sum(is_figure(piece.text) or is_date(piece.text) for piece in flow)
    overlap = min(flow[-1].bottom, max(piece.bottom for piece in before[-_LOOK_BACK:])) - flow[0].top
    return 2 * figures > len(flow) and 2 * overlap > flow[-1].bottom - flow[0].top


def lines_of(pieces: Sequence[Piece]) -> list[Line]:
    """Pieces whose middles are level stand on one line."""
    lines: list[list[Piece]] = []
    for piece in sorted(pieces, key=lambda piece: piece.top + piece.bottom):
        if lines and _level(lines[-1][0], piece):
            lines[-1].append(piece)
        else:
            lines.append([piece])
    return [Line(tuple(_pieces(line))) for line in lines]


def _level(one: Piece, other: Piece) -> bool:
    return abs(one.top + one.bottom - other.top - other.bottom) < min(one.size, other.size)


def _pieces(line: Sequence[Piece]) -> list[Piece]:
    joined: list[Piece] = []
    for piece in sorted(line, key=lambda piece: piece.left):
        reach = _TO_BULLET if len(joined) == 1 and _BULLET.fullmatch(joined[0].text) else _NEAR
        if joined and piece.left - joined[-1].right < reach * piece.size:
            joined[-1] = _beside(joined[-1], piece)
        else:
            joined.append(piece)
    return _signed([part for piece in joined for part in _figures_apart(piece)])


def _beside(one: Piece, other: Piece) -> Piece:
    return replace(one, words=one.words + other.words, bold=one.bold and other.bold)


def _figures_apart(piece: Piece) -> list[Piece]:
    """Figures that stand close together are cells of their own."""
    if len(piece.words) > 1 and all(_is_cell(word.text) for word in piece.words):
        return [replace(piece, words=(word,)) for word in piece.words]
    return [piece]


def _is_cell(text: str) -> bool:
    return is_figure(text) or is_date(text) or opens_figure(text) or closes_figure(text)


def _signed(pieces: Sequence[Piece]) -> list[Piece]:
    """Each sign with its number."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1].text if joined else ""
        if (opens_figure(last) and is_figure(piece.text)) or (
            closes_figure(piece.text) and last[-1:].isdigit()
        ):
            words = (Word(last + piece.text, joined[-1].left, piece.right),)
            joined[-1] = replace(joined[-1], words=words)
        else:
            joined.append(piece)
    return joined

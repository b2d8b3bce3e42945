"""What stands at the edge of page after page: running titles are read once, page numbers not at all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from mrag.documents.pages.glyphs import Piece
from mrag.documents.pages.lines import Line, lines_of

_EDGE_LINES = 2
_LEAST_PAGES = 3
_SHARE_OF_PAGES = 0.2
_FRONT_MATTER = 50  # pages by which the printed number may differ from the count
_LARGER = 1.05
_AT_AN_END = re.compile(r"(?<![^\W_])\d+(?=\W*$)|^\d+|(?i:(?<=page )\d+(?= of \d+$))")


def without_repeats(pages: Sequence[Sequence[Piece]]) -> Iterator[list[Piece]]:
    """The pages without what their first and last lines repeat, but for its first appearance.

    Lines that differ in their page's number alone repeat each other, unless they are large as titles are.
    """
    edges = [_edges(number, pieces) for number, pieces in enumerate(pages)]
    times = Counter(key for page in edges for key in set(page.values()))
    least = max(_LEAST_PAGES, _SHARE_OF_PAGES * len(pages))
    seen: set[str] = set()
    for pieces, page in zip(pages, edges, strict=True):
        repeated = {line: key for line, key in page.items() if times[key] >= least}
        gone = {
            piece.order
            for line, key in repeated.items()
            if key in seen or not re.search(r"[^\W\d]", line.text)
            for piece in line.pieces
        }
        seen |= set(repeated.values())
        yield [piece for piece in pieces if piece.order not in gone]


def _edges(number: int, pieces: Sequence[Piece]) -> dict[Line, str]:
    lines = lines_of(pieces)
    outer = lines if len(lines) <= 2 * _EDGE_LINES else [*lines[:_EDGE_LINES], *lines[-_EDGE_LINES:]]
    usual = median(line.size for line in lines) if lines else 0.0
    return {line: _key(line, number, usual) for line in outer}


def _key(line: Line, number: int, usual_size: float) -> str:
    """The words, with the distance from the count for a page's number at either end."""
    if line.size > _LARGER * usual_size:
        return line.text
    return _AT_AN_END.sub(lambda match: _counted(match[0], number), line.text)


def _counted(digits: str, number: int) -> str:
    distance = int(digits[:6]) - number
    return f"<{distance}>" if abs(distance) <= _FRONT_MATTER else digits

"""A PDF page as blocks in reading order: paragraphs with their style, and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from mrag.documents.pages.glyphs import Piece
from mrag.documents.pages.grids import sections
from mrag.documents.pages.lines import Line, reading_order
from mrag.documents.tables import table_text

_SENTENCE_END = re.compile(r"[.!?:;。！？][\"'”’)\]]*$")
_LEADERS = re.compile(r"(?:\s?\.){4,}")
_OTHER_SIZE = 0.1
_MORE_GAP = 0.35
_WIDEST_GAP = 1.5
_INDENT = 0.8
_SHORT_LINE = 0.8


@dataclass(frozen=True)
class Block:
    """A paragraph or a table. `size` is the height of its lines in points; `lines` is their number."""

    text: str
    size: float
    bold: bool
    lines: int
    is_table: bool = False


def page_blocks(pieces: Sequence[Piece]) -> Iterator[Block]:
    """The blocks of a page."""
    for lines in reading_order(pieces):
        usual_gap = _usual_gap(lines)
        for section in sections(lines):
            if section.rows:
                yield _block(section.lines, table_text(section.rows), is_table=True)
            else:
                yield from _paragraphs(section.lines, usual_gap)


def _block(lines: Sequence[Line], text: str, is_table: bool = False) -> Block:
    size = median(line.size for line in lines)
    return Block(text, size, all(line.bold for line in lines), len(lines), is_table)


def _usual_gap(lines: Sequence[Line]) -> float:
    """Between the lines of a paragraph, in line heights."""
    gaps = [_gap(above, line) for above, line in pairwise(lines)]
    return median([gap for gap in gaps if gap < _WIDEST_GAP] or [0.0])


def _gap(above: Line, line: Line) -> float:
    return (line.top - above.bottom) / max(line.size, 1e-6)


def _paragraphs(lines: Sequence[Line], usual_gap: float) -> Iterator[Block]:
    right = max(line.right for line in lines)
    paragraph: list[Line] = []
    for line in lines:
        if paragraph and _begins_paragraph(line, paragraph, usual_gap, right):
            yield _block(paragraph, _joined(paragraph))
            paragraph = []
        paragraph.append(line)
    yield _block(paragraph, _joined(paragraph))


def _begins_paragraph(line: Line, paragraph: Sequence[Line], usual_gap: float, right: float) -> bool:
    above = paragraph[-1]
    if _gap(above, line) > usual_gap + _MORE_GAP or line.top < above.top:
        return True
    if line.bold != above.bold or abs(line.size - above.size) > _OTHER_SIZE * above.size:
        return True
    if line.is_item or not _SENTENCE_END.search(above.text):
        return False
    is_short = above.right - above.left < _SHORT_LINE * (right - above.left)
    is_indented = line.left - above.left > _INDENT * line.size and not above.is_item
    return is_short or is_indented


def _joined(lines: Sequence[Line]) -> str:
    """A line for a paragraph, one for each item of a list; a soft hyphen where a line's end broke a word."""
    text = lines[0].text
    for line in lines[1:]:
        if line.is_item:
            text += "\n" + line.text
        elif text.endswith("\u00ad"):
            text += line.text
        else:
            text += " " + line.text
    return _LEADERS.sub(" …", text)

"""The text of a PDF page as pieces: what stands on one line without a wide gap, in the order of drawing."""

from __future__ import annotations

import ctypes
from bisect import bisect
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import cos, degrees, radians, sin
from typing import Any, NamedTuple

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from mrag.errors import DocumentError

MAX_PAGE_GLYPHS = 500_000
_GAP = 0.75  # of a line's height: hardly a space between words is as wide
_SPACE = 0.25
_LINE_END_HYPHEN = frozenset((0x02, 0xFFFE))
_LIGATURES = {
    0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st", 0xFB06: "st",
}  # fmt: skip
_BOLD_FROM = 600
_THIN = 3.0  # points, with the air that is reckoned around a stroke
_BELOW = 0.4  # of a line's height
_MOST_RULES = 20_000
_MOST_NEAR = 50


class Word(NamedTuple):
    """A word on its line, from left to right in points."""

    text: str
    left: float
    right: float


@dataclass(frozen=True)
class Piece:
    """Neighbouring words of one line; `top` and `bottom` in points, downward.

    `order` counts the pieces of a page as they are drawn. `rule` is where a drawn line right below
    begins and ends, if there is one.
    """

    words: tuple[Word, ...]
    top: float
    bottom: float
    bold: bool = False
    order: int = 0
    rule: tuple[float, float] | None = None

    @property
    def text(self) -> str:
        """The words, a space between two of them."""
        return " ".join(word.text for word in self.words)

    @property
    def left(self) -> float:
        """Where its line begins on the left."""
        return min(word.left for word in self.words)

    @property
    def right(self) -> float:
        """Where its line ends on the right."""
        return max(word.right for word in self.words)

    @property
    def size(self) -> float:
        """The height of its line."""
        return self.bottom - self.top


class _Glyph(NamedTuple):
    text: str
    at: int
    angle: int
    left: float
    bottom: float
    right: float
    top: float


class _Rule(NamedTuple):
    height: float
    left: float
    right: float


def page_pieces(page: pdfium.PdfPage) -> tuple[list[Piece], list[str]]:
    """The pieces that run as most of the page does, whichever way it is turned, and the texts across it.

    Raises DocumentError for a page of absurdly many letters.
    """
    text_page = page.get_textpage()
    try:
        glyphs = list(_glyphs(text_page))
        turns = Counter(glyph.angle for glyph in glyphs if glyph.text.strip())
        angle = turns.most_common(1)[0][0] if turns else 0
        upright = [_turned(glyph, angle) for glyph in glyphs if glyph.angle == angle]
        across = [glyph for glyph in glyphs if glyph.angle != angle]
        pieces = [_piece(text_page, run, order) for order, run in enumerate(_runs(upright))]
        return list(_over_rules(pieces, sorted(_rules(page, angle)))), list(_across(across))
    finally:
        text_page.close()


def _glyphs(text_page: Any) -> Iterator[_Glyph]:
    count = text_page.count_chars()
    if count > MAX_PAGE_GLYPHS:
        raise DocumentError(f"A page holds {count:,} letters and {MAX_PAGE_GLYPHS:,} are read; split it.")
    box = pdfium_c.FS_RECTF()
    angle = 0
    for index in range(count):
        code = pdfium_c.FPDFText_GetUnicode(text_page, index)
        text = "\u00ad" if code in _LINE_END_HYPHEN else _LIGATURES.get(code) or chr(code)
        if code == 0 or not pdfium_c.FPDFText_GetLooseCharBox(text_page, index, ctypes.byref(box)):
            continue
        if not text.isspace():
            angle = -round(degrees(pdfium_c.FPDFText_GetCharAngle(text_page, index))) % 360
        yield _Glyph(text, index, angle, box.left, box.bottom, box.right, box.top)


def _turned(glyph: _Glyph, angle: int) -> _Glyph:
    """The glyph in a page that was turned until it reads from left to right, downward from the top."""
    along, up = cos(radians(angle)), sin(radians(angle))
    corners = [(x, y) for x in (glyph.left, glyph.right) for y in (glyph.bottom, glyph.top)]
    across = [x * along + y * up for x, y in corners]
    down = [x * up - y * along for x, y in corners]
    return glyph._replace(left=min(across), right=max(across), top=min(down), bottom=max(down))


def _runs(glyphs: Sequence[_Glyph]) -> Iterator[list[list[_Glyph]]]:
    """Neighbours on one line, word by word."""
    run: list[list[_Glyph]] = []
    last: _Glyph | None = None
    after_space = True
    for glyph in glyphs:
        if glyph.text.isspace():
            after_space = True
            continue
        if last and not _continues(last, glyph):
            yield run
            run = []
        if not run or after_space or (last and _gap(last, glyph) > _SPACE * _height(glyph)):
            run.append([])
        run[-1].append(glyph)
        last, after_space = glyph, False
    if run:
        yield run


def _continues(last: _Glyph, glyph: _Glyph) -> bool:
    height = min(_height(last), _height(glyph))
    apart = abs(last.top + last.bottom - glyph.top - glyph.bottom) / 2
    return apart < height / 2 and _gap(last, glyph) < _GAP * max(_height(last), _height(glyph))


def _gap(last: _Glyph, glyph: _Glyph) -> float:
    """In either direction: the letters of Hebrew and Arabic follow each other to the left."""
    return max(glyph.left - last.right, last.left - glyph.right)


def _height(glyph: _Glyph) -> float:
    return glyph.bottom - glyph.top


def _piece(text_page: Any, run: Sequence[Sequence[_Glyph]], order: int) -> Piece:
    heights = sorted((glyph.top, glyph.bottom) for word in run for glyph in word)
    top, bottom = heights[len(heights) // 2]
    is_bold = all(_is_bold(text_page, glyph.at) for glyph in (run[0][0], run[-1][-1]))
    return Piece(tuple(map(_word, run)), top, bottom, is_bold, order)


def _word(glyphs: Sequence[_Glyph]) -> Word:
    """Letters beyond the first plane come as two halves."""
    text = "".join(glyph.text for glyph in glyphs).encode("utf-16", "surrogatepass")
    left, right = min(glyph.left for glyph in glyphs), max(glyph.right for glyph in glyphs)
    return Word(text.decode("utf-16", "replace"), left, right)


def _rules(page: pdfium.PdfPage, angle: int) -> Iterator[_Rule]:
    """The thin lines along the text."""
    paths = page.get_objects(filter=[pdfium_c.FPDF_PAGEOBJ_PATH])
    for path in islice(paths, _MOST_RULES):
        left, bottom, right, top = path.get_bounds()
        box = _turned(_Glyph("", 0, angle, left, bottom, right, top), angle)
        if box.bottom - box.top < _THIN < box.right - box.left:
            yield _Rule((box.top + box.bottom) / 2, box.left, box.right)


def _over_rules(pieces: Sequence[Piece], rules: Sequence[_Rule]) -> Iterator[Piece]:
    heights = [rule.height for rule in rules]
    for piece in pieces:
        near = rules[
            bisect(heights, piece.bottom - _BELOW * piece.size) : bisect(
                heights, piece.bottom + _BELOW * piece.size
            )
        ]
        over = [
            (rule.left, rule.right)
            for rule in near[:_MOST_NEAR]
            if rule.left < piece.left + _THIN and piece.right - _THIN < rule.right
        ]
        yield replace(piece, rule=over[0]) if over else piece


def _across(glyphs: Sequence[_Glyph]) -> Iterator[str]:
    text = ""
    for last, glyph in zip((None, *glyphs), glyphs, strict=False):
        if last and (last.angle != glyph.angle or glyph.text == "\n"):
            yield text
            text = ""
        text += glyph.text
    if text:
        yield text


def _is_bold(text_page: Any, index: int) -> bool:
    if pdfium_c.FPDFText_GetFontWeight(text_page, index) >= _BOLD_FROM:
        return True
    name = ctypes.create_string_buffer(128)
    pdfium_c.FPDFText_GetFontInfo(text_page, index, name, len(name), None)
    return b"bold" in name.value.lower()

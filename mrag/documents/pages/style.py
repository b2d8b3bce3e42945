"""What only a whole document shows: which blocks are headings, and which hyphens end a line alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from mrag.documents.pages.layout import Block

_LARGER = 1.15
_SAME = 1.05
_MOST_LINES = 3
_MOST_CHARACTERS = 200
_BOLD_IS_RARE = 0.4
_DEEPEST = 6
_BROKEN = re.compile(r"(?<!\w)(\w++)\u00ad(\w+)")
_WORD = re.compile(r"\w+(?:-\w+)*")


def heading_levels(blocks: Sequence[Block]) -> Callable[[Block], int | None]:
    """The level of a block as a heading, None for other text: larger letters first, then bold ones.

    A heading is short, and larger than most text of the document, or bold where most text is not.
    """
    text = [block for block in blocks if not block.is_table] or list(blocks)
    body = _usual_size(text)
    bold_is_rare = _share_of_bold(text) < _BOLD_IS_RARE
    styles = {style for block in text if (style := _style(block, body, bold_is_rare))}
    ranks = _ranks(styles)

    def level(block: Block) -> int | None:
        style = _style(block, body, bold_is_rare)
        return ranks[style] if style else None

    return level


def _usual_size(blocks: Iterable[Block]) -> float:
    """The size of the letter in the middle, when all are sorted by size."""
    sizes: Counter[float] = Counter()
    for block in blocks:
        sizes[block.size] += len(block.text)
    left = sizes.total() / 2
    for size in sorted(sizes):
        left -= sizes[size]
        if left <= 0:
            return size
    return 0.0


def _share_of_bold(blocks: Sequence[Block]) -> float:
    letters = sum(len(block.text) for block in blocks)
    return sum(len(block.text) for block in blocks if block.bold) / max(letters, 1)


def _style(block: Block, body: float, bold_is_rare: bool) -> tuple[float, bool] | None:
    """Size and weight of a heading; None where the block is none."""
    if block.is_table or block.lines > _MOST_LINES or len(block.text) > _MOST_CHARACTERS:
        return None
    if "\n" in block.text or not any(c.isalpha() for c in block.text):
        return None
    if block.size >= _LARGER * body:
        return block.size, block.bold
    ends = block.text.endswith((".", ",", ";"))
    return (body, True) if block.bold and bold_is_rare and not ends and block.size * _SAME >= body else None


def _ranks(styles: Iterable[tuple[float, bool]]) -> dict[tuple[float, bool], int]:
    """Levels from 1, by size and then by weight; sizes that differ by little are one."""
    ranks: dict[tuple[float, bool], int] = {}
    level, last = 0, (0.0, False)
    for size, bold in sorted(styles, reverse=True):
        if not level or last[0] > _SAME * size or last[1] != bold:
            level, last = level + 1, (size, bold)
        ranks[size, bold] = min(level, _DEEPEST)
    return ranks


def without_line_ends(texts: Sequence[str]) -> list[str]:
    """The texts with whole words where a hyphen ended a line.

    A word that the document has elsewhere in one form gets this form. The others follow the majority.
    """
    known = {word for text in texts for word in _WORD.findall(text.lower())}
    votes = Counter(_is_one_word(match, known) for text in texts for match in _BROKEN.finditer(text))
    majority = votes[True] > votes[False]

    def whole(match: re.Match[str]) -> str:
        is_one = _is_one_word(match, known)
        return match[1] + ("" if (majority if is_one is None else is_one) else "-") + match[2]

    return [_BROKEN.sub(whole, text).replace("\u00ad", "-") for text in texts]


def _is_one_word(match: re.Match[str], known: set[str]) -> bool | None:
    first, second = match[1].lower(), match[2].lower()
    one, two = first + second in known, f"{first}-{second}" in known
    return None if one == two else one

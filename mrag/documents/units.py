"""Eq. 1: a document as a sequence of source units, paragraphs or segments, with exact offsets."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from operator import itemgetter
from typing import Literal

from mrag.documents.sentences import sentence_spans
from mrag.models.tokens import Tokenizer
from mrag.schema import Document, Heading, SourceUnit

Span = tuple[int, int]
Splitter = Callable[[str], Sequence[Span]]
Between = Callable[[str, int, int], Iterator[Span]]

# A tokenizer of whole words counts a word that it doesn't know as one token, however long it is.
_CHARACTERS_PER_TOKEN = 16
_FENCE = re.compile(r"[ \t>]*(?P<mark>`{3,}|~{3,})(?P<info>.*)")
_WORD = re.compile(r"\S+")


def split_units(
    document: Document,
    tokenizer: Tokenizer,
    max_unit_tokens: int,
    unit: Literal["paragraph", "tokens"] = "paragraph",
) -> tuple[SourceUnit, ...]:
    """Paragraphs (blocks between blank lines, a code fence whole), none above `max_unit_tokens`.

    Every character that is not white space lies in one unit or in a heading. Headings are the
    `section` of the units below them; one with nothing below becomes a unit itself. A longer
    paragraph is split at sentences, a longer sentence at white space, a longer word anywhere.
    With `tokens`, segments of `max_unit_tokens` take whatever stands between two headings instead,
    cut at white space.
    """
    split = _Split(document.text, tokenizer, max_unit_tokens)
    between: Between = _paragraphs if unit == "paragraph" else _stretch
    splitters = (sentence_spans, _words, _characters) if unit == "paragraph" else (_words, _characters)
    spans = [
        (piece, block.section)
        for block in _blocks(document, between)
        for piece in split.pieces(block.span, splitters)
    ]
    return tuple(
        SourceUnit(
            document.id, number, start, end, document.text[start:end], section, _page(document.pages, start)
        )
        for number, ((start, end), section) in enumerate(spans, start=1)
    )


def _page(pages: Sequence[int], start: int) -> int | None:
    return bisect(pages, start) or None


# --------------------------------------------------------------------------- blocks under headings


@dataclass(frozen=True)
class _Block:
    span: Span
    section: tuple[str, ...]


def _blocks(document: Document, between: Between) -> Iterator[_Block]:
    """The spans that `between` finds before, between and after the headings."""
    text, headings = document.text, document.headings
    first = headings[0].start if headings else len(text)
    yield from (_Block(span, ()) for span in between(text, 0, first))
    path: list[Heading] = []
    for heading, following in zip_longest(headings, headings[1:]):
        path = [above for above in path if above.level < heading.level]
        parents = _section(path)
        path.append(heading)
        below = list(between(text, heading.end, following.start if following else len(text)))
        if not below and (following is None or following.level <= heading.level):
            yield _Block((heading.start, heading.end), parents)
        yield from (_Block(span, _section(path)) for span in below)


def _section(path: Sequence[Heading]) -> tuple[str, ...]:
    return tuple(heading.text for heading in path if heading.text)


def _paragraphs(text: str, start: int, end: int) -> Iterator[Span]:
    """Trimmed spans between the blank lines of `text[start:end]`; those inside a code fence part nothing."""
    lines = list(_lines(text, start, end))
    fenced = _fenced([text[left:right] for left, right in lines])
    filled = (
        (at in fenced or bool(text[left:right].strip()), left, right)
        for at, (left, right) in enumerate(lines)
    )
    for is_filled, group in groupby(filled, key=itemgetter(0)):
        if is_filled:
            block = list(group)
            yield _trim(text, block[0][1], block[-1][2])


def _stretch(text: str, start: int, end: int) -> Iterator[Span]:
    """All of `text[start:end]`, trimmed, if there is any."""
    left, right = _trim(text, start, end)
    if left < right:
        yield left, right


def _lines(text: str, start: int, end: int) -> Iterator[Span]:
    while start <= end:
        stop = text.find("\n", start, end)
        stop = end if stop < 0 else stop
        yield start, stop
        start = stop + 1


def _trim(text: str, start: int, end: int) -> Span:
    piece = text[start:end]
    left = start + len(piece) - len(piece.lstrip())
    return left, left + len(piece.strip())


def _fenced(lines: Sequence[str]) -> set[int]:
    """Indices of the lines of closed code fences; a fence that is never closed is ordinary text."""
    fences = [(at, fence) for at, line in enumerate(lines) if (fence := _FENCE.match(line))]
    longest = _longest_closing(fences)
    inside: set[int] = set()
    number = 0
    while number < len(fences):
        opening, fence = fences[number]
        mark = fence["mark"]
        number += 1
        if len(mark) <= longest[number].get(mark[0], 0):
            while not _closes(fences[number][1], mark):
                number += 1
            inside.update(range(opening, fences[number][0] + 1))
            number += 1
    return inside


def _longest_closing(fences: Sequence[tuple[int, re.Match[str]]]) -> list[dict[str, int]]:
    """For each fence, and the end, the longest mark of either kind from it on that can close another.

    Without it, every fence that is never closed would look at all lines below it.
    """
    longest: list[dict[str, int]] = [{}]
    for _, fence in reversed(fences):
        mark = fence["mark"]
        known = longest[-1].get(mark[0], 0)
        is_longer = _closes(fence, mark) and len(mark) > known
        longest.append({**longest[-1], mark[0]: len(mark)} if is_longer else longest[-1])
    return longest[::-1]


def _closes(fence: re.Match[str], mark: str) -> bool:
    return fence["mark"].startswith(mark) and not fence["info"].strip()


# --------------------------------------------------------------------------- too long for the encoder


class _Split:
    """Splits spans of one text that hold more than `limit` tokens."""

    def __init__(self, text: str, tokenizer: Tokenizer, limit: int) -> None:
        self._text = text
        self._tokenizer = tokenizer
        self._limit = limit

    def pieces(self, span: Span, splitters: Sequence[Splitter]) -> Iterator[Span]:
        """`span`, or as few pieces as its parts allow; a part too long goes to the next splitter."""
        if not splitters or self._fits(*span):
            yield span
            return
        start, end = span
        parts = [(start + left, start + right) for left, right in splitters[0](self._text[start:end])]
        first = 0
        while first < len(parts):
            if run := self._run(parts, first):
                yield parts[first][0], parts[first + run - 1][1]
            else:
                yield from self.pieces(parts[first], splitters[1:])
            first += max(run, 1)

    def _run(self, parts: Sequence[Span], first: int) -> int:
        """How many parts from `first` on fit together: doubling, then halving, as counting is dear."""
        fits, beyond = 0, 1
        while first + beyond <= len(parts) and self._fits(parts[first][0], parts[first + beyond - 1][1]):
            fits, beyond = beyond, beyond * 2
        beyond = min(beyond, len(parts) - first + 1)
        while beyond - fits > 1:
            middle = (fits + beyond) // 2
            if self._fits(parts[first][0], parts[first + middle - 1][1]):
                fits = middle
            else:
                beyond = middle
        return fits

    def _fits(self, start: int, end: int) -> bool:
        if end - start > self._limit * _CHARACTERS_PER_TOKEN:
            return False
        return self._tokenizer.count(self._text[start:end]) <= self._limit


def _words(text: str) -> list[Span]:
    return [match.span() for match in _WORD.finditer(text)]


def _characters(text: str) -> list[Span]:
    return [(at, at + 1) for at in range(len(text))]

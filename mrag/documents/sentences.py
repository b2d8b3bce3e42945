"""Sentences by rules: English abbreviations, numbers, initials, quotes; full stops of other scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator

_CLOSERS = "\"'”’»›)\\]}」』）】》"
_NOTE_MARKS = r"(?:\[\d{1,3}\]|[¹²³⁴⁵⁶⁷⁸⁹⁰])*"
_OPENERS = "\"'“‘«‹(\\[{„¿¡*_"

# Full stops that need no space after them, an ASCII stop that does, a blank line, or a new list item.
_CANDIDATE = re.compile(
    rf"(?P<wide>(?:[。！？｡؟।॥]|．(?!\d))+[{_CLOSERS}]*)"
    # Stops and closers are taken whole: a megabyte of dots is looked at once, not once for each dot.
    rf"|(?P<stop>(?<![.!?…])[.!?…]++[{_CLOSERS}]*+{_NOTE_MARKS})(?=\s|$)"
    r"|(?P<blank>\n[^\S\n]*(?=\n))"
    r"|(?P<item>\n(?=[^\S\n]*(?:\||(?:[-*+•]|\d{1,3}[.)])\s)))"
)
_NEXT = re.compile(rf"\s*[{_OPENERS}]*(?P<word>\w*)")
_LAST = re.compile(rf"(?P<word>[^\s{_OPENERS}—–/]*)$")
_LINE_START = re.compile(r"(?:\A|\n)[ \t]*\Z")


def _set(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


_NEVER_LAST = _set(
    "mr mrs ms messrs dr prof st mt ft rev hon gov sen rep gen col lt sgt capt cmdr adm maj pres",
    "vs e.g i.e cf viz approx ca fig figs eq eqs resp dept esp incl z.b bzw d.h u.a",
)
_BEFORE_NUMBER = _set(
    "no nos nr p pp vol vols ch chap sec art para ed eds abs",
    "jan feb mar apr jun jul aug sep sept oct nov dec",
)
# They close a sentence only where a word follows that often opens one.
_SOMETIMES_LAST = _set(
    "etc inc ltd co corp bros jr sr al a.m p.m u.s u.k u.n e.u ph.d m.d b.c a.d d.c est ave blvd rd hwy",
)
_OPENING_WORDS = _set(
    "a after all also an and another any as at because before both but by during each even every first for",
    "from he her here his how however i if in it its later many more most much my no not now of on once one",
    "only other our over several she since so some such that the their then there these they this those",
    "though through to under until we what when where which while who why with you your",
)


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Offsets [start, end) of the sentences: in order, apart, without white space around them.

    Every character that is not white space lies in one of them. A line break inside a paragraph
    ends no sentence; a blank line and a new list item or table row do.
    """
    return [span for span in _trimmed(text) if span[0] < span[1]]


def _trimmed(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for end in _ends(text):
        piece = text[start:end]
        left = start + len(piece) - len(piece.lstrip())
        yield left, left + len(piece.strip())
        start = end


def _ends(text: str) -> Iterator[int]:
    for match in _CANDIDATE.finditer(text):
        if match.lastgroup != "stop" or _closes(text, match):
            yield match.end()
    yield len(text)


def _closes(text: str, match: re.Match[str]) -> bool:
    following = _NEXT.match(text, match.end())
    after = following["word"] if following else ""
    if after[:1].islower():
        return False
    if not match["stop"].startswith(".") or match["stop"].startswith(".."):
        return True
    word = _word_before(text, match.start())
    at = match.start() - len(word)
    if word.isdigit() and _LINE_START.search(text, max(0, at - 9), at):
        return False  # the number of a list item
    return _full_stop_closes(word, after)


def _word_before(text: str, end: int) -> str:
    found = _LAST.search(text[max(0, end - 24) : end])
    return found["word"] if found else ""


def _full_stop_closes(word: str, after: str) -> bool:
    """Whether the full stop after `word` ends a sentence when `after` is the next word."""
    lowered = word.lower()
    if lowered in _NEVER_LAST:
        return False
    if lowered in _BEFORE_NUMBER:
        return not after[:1].isdigit()
    if lowered in _SOMETIMES_LAST or _is_initials(word):
        return after.lower() in _OPENING_WORDS
    return True


def _is_initials(word: str) -> bool:
    return word != "I" and all(len(letter) == 1 and letter.isupper() for letter in word.split("."))

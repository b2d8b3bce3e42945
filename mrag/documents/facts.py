"""The numbers, dates and names that a text states, in forms that can be compared."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from mrag.documents.quantities import SCALES, SMALL, Placed, folded, placed_numbers
from mrag.documents.words import STOP_WORDS, TOKEN, bare, tokens

Date = tuple[int | None, int | None, int | None]

_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)
_MONTH = "(?P<month>" + "|".join(f"{month.title()}|{month.title()[:3]}" for month in _MONTHS) + r"|Sept)\b\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?(?!\w)"
_YEAR = r"(?P<year>\d{4})(?!\w)"
_DATES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?<![\w-])(?P<year>\d{4})-(?P<month>\d{2})(?:-(?P<day>\d{2}))?(?![\w-])",
        rf"(?<!\w){_DAY} (?:of )?{_MONTH}(?:,? {_YEAR})?",
        rf"\b{_MONTH} {_DAY}(?:,? {_YEAR})?",
        rf"\b{_MONTH},? {_YEAR}",
    )
)
_STARTS = re.compile(r"(?:^|[.!?:;•–—|]|(?<!\S)-)\s*[\"'“”‘’(]*$")
_DECADE = re.compile(r"(\d)['’]s$")
_OPENING = 8  # characters that may stand between the end of a sentence and the first word of the next
_ARTICLES = frozenset(("a", "an", "the", "i"))
_NUMBER_WORDS = frozenset((*SCALES, *SMALL)) - {"one"}


@dataclass(frozen=True)
class Facts:
    """What a text states. A date has None for what it leaves open; names and codes are bare words."""

    dates: frozenset[Date]
    numbers: frozenset[Decimal]
    names: frozenset[str]

    def __bool__(self) -> bool:
        """Whether anything is stated."""
        return bool(self.dates or self.numbers or self.names)

    @property
    def quantities(self) -> frozenset[Decimal]:
        """The numbers, and the years of the dates; a day is part of a date and no number of its own."""
        return self.numbers | {Decimal(year) for year, _, _ in self.dates if year is not None}


def facts(text: str, ordinary: frozenset[str] = frozenset()) -> Facts:
    """Reads dates (ISO or with an English month), numbers (in digits or English words, with a scale
    word multiplied), and names: words with a capital or mixed with digits, like `VP-09`.

    `ordinary` are words known to be no names, whose capital at the start of a sentence means nothing.
    """
    dates, text = _take_dates(folded(" ".join(text.split())))
    placed = list(placed_numbers(text))
    return Facts(frozenset(dates), _values(placed), frozenset(_names(text, ordinary, placed)))


def supports(quote: str, claim: str, ordinary: frozenset[str] = frozenset()) -> bool:
    """Whether every number, date and name of `claim` stands in `quote`, in whatever notation."""
    return not unsupported(quote, claim, ordinary)


def unsupported(quote: str, claim: str, ordinary: frozenset[str] = frozenset()) -> Facts:
    """The dates, numbers and names of `claim` that do not stand in `quote`, in whatever notation."""
    claimed, (given, words) = facts(claim, ordinary), _given(quote)
    return Facts(
        frozenset(date for date in claimed.dates if not any(_within(date, other) for other in given.dates)),
        claimed.numbers - given.quantities,
        claimed.names - words,
    )


@lru_cache(maxsize=64)
def _given(quote: str) -> tuple[Facts, frozenset[str]]:
    """What a quote gives to claims, of which there may be many: dates and numbers, and its words."""
    quote = folded(" ".join(quote.split()))
    dates, text = _take_dates(quote)
    found = Facts(frozenset(dates), _values(placed_numbers(text)), frozenset())
    return found, frozenset(_mentioned(quote, list(placed_numbers(quote))))


def _values(placed: Iterable[Placed]) -> frozenset[Decimal]:
    return frozenset(value for _, _, value in placed if value is not None)


def _take_dates(text: str) -> tuple[list[Date], str]:
    """The dates, and the text without them."""
    dates: list[Date] = []
    for pattern in _DATES:
        dates += (_date(match) for match in pattern.finditer(text))
        text = pattern.sub(" ", text)
    return dates, text


def _date(match: re.Match[str]) -> Date:
    parts = {"day": None, **match.groupdict()}
    month = str(parts["month"])
    number = int(month) if month.isdigit() else [name[:3] for name in _MONTHS].index(month[:3].casefold()) + 1
    return _int(parts["year"]), number, _int(parts["day"])


def _int(digits: str | None) -> int | None:
    return int(digits) if digits else None


def _within(claimed: Date, given: Date) -> bool:
    """Whether the given date says all that the claimed one says."""
    return all(mine is None or mine == other for mine, other in zip(claimed, given, strict=True))


def _names(text: str, ordinary: frozenset[str], placed: Sequence[Placed]) -> Iterator[str]:
    """Words with a capital, codes, and what can be compared only as it is written."""
    yield from _as_written(text, placed)
    words = [match for match in TOKEN.finditer(text) if not _overlaps(match, placed)]
    flat = not any(_is_plain(match[0]) for match in words)
    for match in words:
        if any(c.isdigit() for c in match[0]):
            yield bare(match[0])
            continue
        starts = bool(_STARTS.search(text, max(0, match.start() - _OPENING), match.start()))
        # Of `Alma-class` only `Alma` is a name.
        for part in match[0].split("-"):
            if name := _name(part, starts, flat, ordinary):
                yield name


def _name(word: str, starts: bool, flat: bool, ordinary: frozenset[str]) -> str | None:
    """The name that a word is, if it is one. `flat`: the text has capitals throughout, which tell nothing.

    A stop word is one where its capital is no accident, `Will` within a sentence or `US`; it is compared
    as it is written.
    """
    plain = bare(word)
    if word == word.lower() or plain in _NUMBER_WORDS:
        return None
    if plain not in STOP_WORDS:
        return None if starts and plain in ordinary else plain
    acronym = len(word) > 1 and word.isupper()
    if (plain in _ARTICLES and not acronym) or (starts and (flat or not acronym)):
        return None
    return plain if flat else word


def _is_plain(word: str) -> bool:
    """Whether a word is no stop word and begins without a capital: its text is no line of capitals."""
    return word[0].islower() and bare(word) not in STOP_WORDS


def _overlaps(match: re.Match[str], placed: Sequence[Placed]) -> bool:
    at = bisect_right(placed, match.start(), key=lambda number: number.start) - 1
    return at >= 0 and placed[at].end > match.start()


def _as_written(text: str, placed: Sequence[Placed]) -> Iterator[str]:
    """The numbers without a value; `1990's` is `1990s`, and never the year."""
    yield from (bare(_DECADE.sub(r"\1s", text[start:end])) for start, end, value in placed if value is None)


def _mentioned(quote: str, placed: Sequence[Placed]) -> Iterator[str]:
    """The bare words of a quote, the parts of its hyphenated ones, and its capital stop words as written."""
    yield from _as_written(quote, placed)
    for token in tokens(quote):
        for part in (token, *token.split("-")):
            yield bare(part)
            if part[0].isupper() and bare(part) in STOP_WORDS:
                yield part.removesuffix("'s")


def ordinary_words(text: str) -> frozenset[str]:
    """The words that `text` writes without a capital."""
    return frozenset(token for token in tokens(text) if token.islower())

"""The numbers, dates and names that a text states, in forms that can be compared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

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
_SPELLED = {
    word: n
    for first, step, words in (
        (0, 1, "zero one two three four five six seven eight nine ten eleven twelve"),
        (13, 1, "thirteen fourteen fifteen sixteen seventeen eighteen nineteen"),
        (20, 10, "twenty thirty forty fifty sixty seventy eighty ninety"),
    )
    for n, word in zip(range(first, 100, step), words.split(), strict=False)
}
del _SPELLED["one"]  # mostly a pronoun
_SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_PLAIN = re.compile(r"\d+(?:\.\d+)?")
_WITH_WORD = re.compile(r"(\d[\d.,]*)-?[a-z]+(?:-[a-z]+)*")
_POINT = re.compile(r"(?<![\w.])\.$")
_SIGN = re.compile(r"(?<!\w)[-−–]$")
_STARTS = re.compile(r"(?:^|[.!?:;])\s*[\"'“”‘’(]*$")
_OPENING = 8  # characters that may stand between the end of a sentence and the first word of the next


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
        """The numbers, the years and days of the dates among them."""
        parts = (part for year, _, day in self.dates for part in (year, day) if part is not None)
        return self.numbers | frozenset(map(Decimal, parts))


def facts(text: str, ordinary: frozenset[str] = frozenset()) -> Facts:
    """Reads dates (ISO or with an English month), numbers (in digits or English words, with a scale
    word multiplied), and names: words with a capital or mixed with digits, like `VP-09`.

    `ordinary` are words known to be no names, whose capital at the start of a sentence means nothing.
    """
    dates, text = _take_dates(" ".join(text.split()))
    return Facts(frozenset(dates), frozenset(numbers(text)), frozenset(_names(text, ordinary)))


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
    dates, text = _take_dates(" ".join(quote.split()))
    return Facts(frozenset(dates), frozenset(numbers(text)), frozenset()), frozenset(_mentioned(quote))


def numbers(text: str) -> set[Decimal]:
    """The numbers of `text`; `5 million` is 5000000, and a year or a day is a number as well."""
    return {value for _, _, value in placed_numbers(text)}


def placed_numbers(text: str) -> Iterator[tuple[int, int, Decimal]]:
    """The numbers with the [start, end) where they stand, sign and scale words included."""
    open_number: tuple[int, int, Decimal] | None = None
    for match in TOKEN.finditer(text):
        if scale := _SCALES.get(match[0].casefold()):
            start, _, value = open_number or (match.start(), 0, Decimal(1))
            open_number = start, match.end(), value * scale
            continue
        if open_number:
            yield open_number
        open_number = _number_at(match, text)
    if open_number:
        yield open_number


def _number_at(match: re.Match[str], text: str) -> tuple[int, int, Decimal] | None:
    """The number of a token, with a decimal point and a sign that stand before it."""
    token, start = match[0], match.start()
    if token.isdigit() and _POINT.search(text[max(0, start - 2) : start]):
        token, start = f"0.{token}", start - 1
    value = _value(token)
    if value is None:
        return None
    if _SIGN.search(text[max(0, start - 2) : start]):
        value, start = -value, start - 1
    return start, match.end(), value


def quantity_words(text: str) -> list[str]:
    """The words of `text` that are, or scale, a number."""
    return [word for word in tokens(text) if _value(word) is not None or word.casefold() in _SCALES]


def _value(token: str) -> Decimal | None:
    if mixed := _WITH_WORD.fullmatch(token):
        return _value(mixed[1].rstrip(".,"))
    if _GROUPED.fullmatch(token):
        return Decimal(token.replace(",", ""))
    if _PLAIN.fullmatch(token):
        return Decimal(token)
    parts = [_SPELLED.get(part) for part in token.casefold().split("-")]
    return Decimal(sum(part or 0 for part in parts)) if None not in parts else None


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


def _names(text: str, ordinary: frozenset[str]) -> set[str]:
    found = set()
    for match in TOKEN.finditer(text):
        if _value(match[0]) is not None:
            continue
        if any(c.isdigit() for c in match[0]):
            found.add(bare(match[0]))
            continue
        starts = bool(_STARTS.search(text, max(0, match.start() - _OPENING), match.start()))
        # Of `Alma-class` only `Alma` is a name.
        parts = {bare(part) for part in match[0].split("-") if any(c.isupper() for c in part)}
        found |= {part for part in parts - STOP_WORDS - _SCALES.keys() if not (starts and part in ordinary)}
    return found


def _mentioned(quote: str) -> set[str]:
    """The bare words of a quote, and the parts of its hyphenated ones."""
    words = {bare(token) for token in tokens(quote)}
    return words | {part for word in words for part in word.split("-")}


def ordinary_words(text: str) -> frozenset[str]:
    """The words that `text` writes without a capital."""
    return frozenset(token for token in tokens(text) if token.islower())

"""The numbers that a text states: in digits or English words, with sign, scale, grouping and power.

What has more than one reading counts by the strict one. `5m` is five million, never five metres. Three digits
after a space belong to the number before it (`12 300`); after a point they do beside a currency
(`1.000 EUR`), elsewhere such a number, and a time of day, holds only as it is written. A figure in
brackets is negative where its currency stands before the bracket or a currency or scale after it:
`$(5)`, `(5) million`; not in `($5 million)`, which prose writes for an aside. A fraction belongs to the
number before it (`3½`, `3 1/2`); one without end in digits (`⅓`) holds only as it is written. An ordinal
(`12th`) is no 12, a decade (`the 1990s`) no year, and a sign between two numbers (`10 -5`) may make a
range: all hold only as they are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Context, Decimal
from typing import NamedTuple

from mrag.documents.words import TOKEN

SMALL = {
    word: n
    for first, step, words in (
        (0, 1, "zero one two three four five six seven eight nine ten eleven twelve"),
        (13, 1, "thirteen fourteen fifteen sixteen seventeen eighteen nineteen"),
        (20, 10, "twenty thirty forty fifty sixty seventy eighty ninety"),
    )
    for n, word in zip(range(first, 100, step), words.split(), strict=False)
}
_POWERS = {"thousand": 3, "million": 6, "mn": 6, "mln": 6, "billion": 9, "bn": 9, "bln": 9}
_POWERS |= {"trillion": 12, "tn": 12, "trn": 12, "crore": 7, "lakh": 5}
SCALES = {"hundred": 100, "dozen": 12} | {word: 10**power for word, power in _POWERS.items()}
_PLURALS = {f"{word}s": scale for word, scale in SCALES.items() if len(word) > 3}
_NO_NUMBERS = {"one", *_PLURALS} | {word for word in SCALES if len(word) < 4}  # a pronoun; `millions`; TN
SUFFIXES = {"k": 10**3, "m": 10**6, "mn": 10**6, "bn": 10**9, "tn": 10**12}
_OF_MONEY = {"b": 10**9, "t": 10**12}

_FRACTIONS = {
    text[0]: (int(text[1]), int(text[2]))
    for text in "½12 ⅓13 ⅔23 ¼14 ¾34 ⅕15 ⅖25 ⅗35 ⅘45 ⅙16 ⅚56 ⅛18 ⅜38 ⅝58 ⅞78".split()  # noqa: SIM905
}

_HYPHENS = str.maketrans("\u2010\u2011\ufe63\uff0d", "----")
_SIGN_OF_MONEY = "[$€£¥₹₽₩₪₺₫¢฿]"
_MONEY = rf"(?:{_SIGN_OF_MONEY}|\b(?:EUR|USD|GBP|CHF|JPY|CNY|INR|AUD|CAD|SEK|NOK|DKK|PLN|CZK|BRL)\b)"
_MONEY_BEFORE = re.compile(rf"{_MONEY}\s?[-−–]?\s?$")
_MONEY_AFTER = re.compile(rf"\s?(?:{_MONEY}|(?:euros?|dollars?|pounds?|francs?)\b)", re.IGNORECASE)
_BRACKET_AFTER = re.compile(
    rf"\)\s?(?:{_MONEY}|(?:{'|'.join([*SCALES, *_PLURALS, *SUFFIXES])})\b)", re.IGNORECASE
)
_BRACKET_BEFORE = re.compile(rf"{_SIGN_OF_MONEY}\s?\($")
_SIGN = re.compile(
    rf"(?:(?<!\w)[-−–]|(?<![\d)])(?<![\d)]\s)−\s|(?<!\d\s)\b(?:minus|negative)\s)(?:{_SIGN_OF_MONEY}\s?)?$",
    re.IGNORECASE,
)
_BETWEEN_NUMBERS = re.compile(r"[\d%]\s$")
_ORDINAL_ENDINGS = frozenset(("st", "nd", "rd", "th"))
_YEAR = re.compile(r"\d{4}['’]?")
_POINT = re.compile(r"(?<![\w.])\.$")
_FIGURES = ("figure", "fraction")
_BEFORE = 16  # characters before a number in which its sign and currency stand

_SPACED = re.compile(r"(\d{1,3}(?:[ \u00a0\u2007\u2009\u202f]\d{3})+(?:[.,]\d+)?)([^\W\d_]*)(?!\w|[-/:.,]\d)")
_TIME = re.compile(r"\d{1,2}(?::\d{2}){1,2}(?!\w)")
_POWER = re.compile(
    r"(?:\s?[×x·*]\s?10|(?<=10)(?=\s?\^|[⁰¹²³⁴-⁹⁻]))(?:\s?\^\s?([-−+]?\d{1,3})(?!\w)|([⁻⁺]?[⁰¹²³⁴-⁹]{1,3}))"
)
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺−", "0123456789-+-")
_FIGURE = re.compile(rf"(\d[\d.,'’]*|(?=[{''.join(_FRACTIONS)}]))(-?)([^\W\d_]+(?:-[^\W\d_]+)*)?")
_SLASHED = re.compile(r"(?<=\d[ \u00a0])(\d{1,2})/([1-9]\d?)(?![\w/-])")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{2,3})*,\d{3}(?:\.\d+)?|\d{1,3}(?:['’]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?")
_BY_POINTS = re.compile(r"\d{1,3}(?:\.\d{3}){2,}|\d{1,3}(?:\.\d{3})+,\d+")
_ONE_POINT = re.compile(r"[1-9]\d{0,2}\.\d{3}")
_HALF = re.compile(rf"(?<!\band\sa\s)half(?:\s+an?)?\s+(?=(?:{'|'.join(SCALES)})\b)", re.IGNORECASE)
_AND_A_HALF = re.compile(r"\s+and\s+a\s+half\b", re.IGNORECASE)
_NEAR = re.compile(r"[\s-]?|\)\s?")
_AND = re.compile(r"\s(?:and\s)?|-")

_MOST_DIGITS = 40
_EXACT = Context(prec=400, Emax=999, Emin=-999, traps=[])


class _Piece(NamedTuple):
    """A part of a number where it stands; without a value it can only be compared as it is written."""

    start: int
    end: int
    kind: str  # "figure", "fraction", "small" for a word below a hundred, "scale"
    value: Decimal | None


class Placed(NamedTuple):
    """A number with the [start, end) where it stands, sign and scale included."""

    start: int
    end: int
    value: Decimal | None


def numbers(text: str) -> set[Decimal]:
    """The numbers of `text`; `5 million` is 5000000, and one of absurd size is none of them."""
    return {value for _, _, value in placed_numbers(text) if value is not None}


def placed_numbers(text: str) -> Iterator[Placed]:
    """The numbers in order; None for the value of one that can be compared only as it is written."""
    text = folded(text)
    pieces = list(_pieces(text))
    at = 0
    while at < len(pieces):
        value, end = _composed(pieces, at, text)
        start, stop = pieces[at].start, _end(pieces[end - 1], text)
        if text[start:stop].casefold() not in _NO_NUMBERS:
            yield _signed(text, start, stop, value)
        at = end


def folded(text: str) -> str:
    """`text` with every kind of hyphen as `-`, of the same length."""
    return text.translate(_HYPHENS)


def scale_words(text: str) -> list[str]:
    """The words of `text` that scale a number: `million`, `bn`."""
    return [word for word in TOKEN.findall(text) if word.casefold() in SCALES | _PLURALS]


# --------------------------------------------------------------------------- pieces


def _pieces(text: str) -> Iterator[_Piece]:
    """Figures and number words in order."""
    after = 0
    for match in TOKEN.finditer(text):
        if match.start() < after:
            continue
        for piece in _pieces_of(match, text):
            after = piece.end
            yield piece


def _pieces_of(match: re.Match[str], text: str) -> Iterator[_Piece]:
    token, start = match[0], match.start()
    if half := _HALF.match(text, start):
        yield _Piece(start, half.end(), "small", Decimal("0.5"))
    elif not token[0].isdigit() and token[0] not in _FRACTIONS:
        yield from _words(token, start)
    elif (slashed := _SLASHED.match(text, start)) and int(slashed[1]) < int(slashed[2]):
        yield _Piece(start, slashed.end(), "fraction", _fraction(int(slashed[1]), int(slashed[2])))
    elif time := _TIME.match(text, start):
        yield _Piece(start, time.end(), "figure", None)
    elif (spaced := _SPACED.match(text, start)) and spaced.end() > match.end():
        figure = re.sub(r"\s", "", spaced[1]).replace(",", ".")
        yield _raised(_figure(start, spaced.end(), figure, "", spaced[2], text), text)
    elif figure_and_word := _FIGURE.fullmatch(token.rstrip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺")):
        figure, hyphen, word = (part or "" for part in figure_and_word.groups())
        piece = _figure(start, start + figure_and_word.end(), figure, hyphen, word, text)
        whole = _raised(piece, text)
        if whole.end >= match.end():
            yield whole


def _words(token: str, start: int) -> Iterator[_Piece]:
    """Number words, of `five-million-dollar` the first two."""
    for part in token.split("-"):
        word = part.casefold()
        if word in SMALL:
            yield _Piece(start, start + len(part), "small", Decimal(SMALL[word]))
        elif scale := (SCALES | _PLURALS).get(word):
            yield _Piece(start, start + len(part), "scale", Decimal(scale))
        else:
            return
        start += len(part) + 1


def _figure(start: int, end: int, digits: str, hyphen: str, word: str, text: str) -> _Piece:
    """Digits with what is written on to them: `5bn`, `12-inch`, `5-million-dollar`; or a `½` alone."""
    kind = "figure" if digits else "fraction"
    if text[max(0, start - 2) : start][-1:] == "." and _POINT.search(text[max(0, start - 2) : start]):
        start, digits = start - 1, f"0.{digits}"
    money = bool(_MONEY_BEFORE.search(text[max(0, start - _BEFORE) : start]))
    value = _value(digits.rstrip(".,'’") or "0", money or bool(_MONEY_AFTER.match(text, end)))
    if word[:1] in _FRACTIONS:
        value, word = _plus(value, _fraction(*_FRACTIONS[word[0]])), word[1:]
    first, _, more = word.casefold().partition("-")
    if not hyphen and (money or not (first == "m" and more)) and (suffix := _suffix(first, money)):
        value = _times(value, suffix)
    elif scale := (SCALES | _PLURALS).get(first):
        value = _times(value, scale)
    elif first in _ORDINAL_ENDINGS or (word and word != word.casefold()):
        value = None  # an ordinal, or a code like `12B`
    elif word == "s" and _YEAR.fullmatch(digits):
        value = None
    return _Piece(start, end, kind, value)


def _fraction(part: int, of: int) -> Decimal | None:
    """None where its digits have no end."""
    return Decimal(part) / Decimal(of) if 10**6 % of == 0 else None


def _plus(value: Decimal | None, more: Decimal | None) -> Decimal | None:
    return None if value is None or more is None else _EXACT.add(value, more)


def _suffix(word: str, money: bool) -> int | None:
    return SUFFIXES.get(word) or (_OF_MONEY.get(word) if money else None)


def _value(digits: str, money: bool) -> Decimal | None:
    """What digits say; None where they say it in more than one way, or are none of a number."""
    if len(digits) > _MOST_DIGITS:
        return None
    if _BY_POINTS.fullmatch(digits) or (money and _ONE_POINT.fullmatch(digits)):
        return Decimal(digits.replace(".", "").replace(",", "."))
    if _GROUPED.fullmatch(digits) and not _ONE_POINT.fullmatch(digits):
        return Decimal(re.sub(r"[,'’]", "", digits))
    return None


def _raised(piece: _Piece, text: str) -> _Piece:
    """The figure with the power that follows: `5×10^6`, `10⁶`."""
    power = _POWER.match(text, piece.end)
    if power is None:
        return piece
    exponent = int((power[1] or power[2]).translate(_RAISED))
    if power[0].lstrip()[:1] in "×x·*":
        value = _times(piece.value, _EXACT.power(Decimal(10), exponent))
    else:
        value = _times(_EXACT.power(Decimal(10), exponent), 1) if piece.value == 10 else None
    return piece._replace(end=power.end(), value=value)


def _times(value: Decimal | None, factor: Decimal | int) -> Decimal | None:
    """The product, exactly; None, which is compared as it is written, where it is of absurd size."""
    if value is None:
        return None
    product = _EXACT.multiply(value, Decimal(factor))
    return product if product.is_finite() and product.adjusted() < _MOST_DIGITS else None


# --------------------------------------------------------------------------- composed numbers


def _composed(pieces: Sequence[_Piece], at: int, text: str) -> tuple[Decimal | None, int]:
    """The number that begins with a piece, and the piece after it: `two million five hundred thousand`."""
    total, scale, end = _group(pieces, at, text)
    while total is not None and scale is not None and end < len(pieces) and _follows(pieces, end, text, _AND):
        value, smaller, after = _group(pieces, end, text)
        if value is None or value >= scale or (pieces[end].kind in _FIGURES and smaller is None):
            break
        total, scale, end = _EXACT.add(total, value), smaller, after
    return total, end


def _group(pieces: Sequence[_Piece], at: int, text: str) -> tuple[Decimal | None, Decimal | None, int]:
    """A number below a thousand with its scales, the last of them, and the piece after it."""
    value, end = (Decimal(1), at) if pieces[at].kind == "scale" else _below_hundred(pieces, at, text)
    scale: Decimal | None = None
    while end < len(pieces) and pieces[end].kind == "scale":
        if end > at and not _follows(pieces, end, text, _NEAR):
            break
        scale = pieces[end].value
        value, end = _times(value, scale or 1), end + 1
        if scale == 100 and value is not None and end < len(pieces) and pieces[end].kind == "small":
            more, after = _below_hundred(pieces, end, text)
            hundreds = after < len(pieces) and pieces[after].value == 100
            if more is not None and not hundreds and _follows(pieces, end, text, _AND):
                value, end = _EXACT.add(value, more), after
    return value, scale, end


def _below_hundred(pieces: Sequence[_Piece], at: int, text: str) -> tuple[Decimal | None, int]:
    """A figure, or a word below a hundred: `twenty-five`, `two and a half`, `3 1/2`."""
    value, end = pieces[at].value, at + 1
    if value is not None and end < len(pieces) and pieces[at].kind == pieces[end].kind == "small":
        ones = pieces[end].value or 0
        if value >= 20 and 1 <= ones < 10 and _follows(pieces, end, text, _NEAR):
            value, end = value + ones, end + 1
    elif value is not None and end < len(pieces) and _is_mixed(pieces, end, text):
        return _plus(value, pieces[end].value), end + 1
    if value is not None and _AND_A_HALF.match(text, pieces[end - 1].end):
        value = _EXACT.add(value, Decimal("0.5"))
    return value, end


def _is_mixed(pieces: Sequence[_Piece], at: int, text: str) -> bool:
    """Whether a fraction belongs to the figure before it, which is no year: `in 1962 ½ of them`."""
    whole, fraction = pieces[at - 1 : at + 1]
    mixed = (whole.kind, fraction.kind) == ("figure", "fraction") and (whole.value or 0) < 1000
    return mixed and whole.value == int(whole.value or 0) and _follows(pieces, at, text, _NEAR)


def _follows(pieces: Sequence[_Piece], at: int, text: str, between: re.Pattern[str]) -> bool:
    """Whether nothing but what may stand within a number is between a piece and the one before it."""
    start, end = pieces[at - 1].end, pieces[at].start
    if half := _AND_A_HALF.match(text, start):
        start = half.end()
    return bool(between.fullmatch(text, start, end))


# --------------------------------------------------------------------------- signs


def _end(last: _Piece, text: str) -> int:
    half = _AND_A_HALF.match(text, last.end)
    return half.end() if half else last.end


def _signed(text: str, start: int, end: int, value: Decimal | None) -> Placed:
    before = text[max(0, start - _BEFORE) : start]
    if sign := _SIGN.search(before):
        at = start - len(before) + sign.start()
        if value is None or _BETWEEN_NUMBERS.search(text[max(0, at - 2) : at]):
            return Placed(at, end, None)
        return Placed(at, end, _EXACT.minus(value))
    scaled = ")" in text[start:end]
    if before.endswith("(") and (scaled or _BRACKET_BEFORE.search(before) or _BRACKET_AFTER.match(text, end)):
        value = _EXACT.minus(value) if value is not None else None
    return Placed(start, end, value)

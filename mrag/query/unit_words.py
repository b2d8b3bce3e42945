"""Units of measurement as texts write them: which stands beside a number, and whether two are the same."""

from __future__ import annotations

import re

from mrag.documents.quantities import SUFFIXES
from mrag.documents.words import STOP_WORDS, TOKEN

# One unit a line, in all its forms; a form of two lines (`pounds`) may be either.
_UNITS = """
% percent percentage
USD $ dollar dollars
EUR € euro euros
GBP £ pound pounds sterling
JPY ¥ yen
CNY ¥ yuan renminbi
CHF franc francs
INR ₹ rupee rupees
AUD dollar dollars
CAD dollar dollars
SEK krona kronor
NOK krone kroner
DKK krone kroner
km kilometre kilometres kilometer kilometers
m metre metres meter meters
cm centimetre centimetres centimeter centimeters
mm millimetre millimetres millimeter millimeters
mi mile miles
nmi nautical_mile nautical_miles
ft foot feet
inch inches
yd yard yards
m² m2 sqm square_metre square_metres square_meter square_meters
km² km2 square_kilometre square_kilometres square_kilometer square_kilometers
m³ m3 cubic_metre cubic_metres cubic_meter cubic_meters
ha hectare hectares
acre acres
l litre litres liter liters
ml millilitre millilitres milliliter milliliters
gallon gallons
g gram grams gramme grammes
kg kilogram kilograms kilogramme kilogrammes kilo kilos
t tonne tonnes
ton tons
lb lbs pound pounds
s sec second seconds
min minute minutes
h hr hrs hour hours
day days
week weeks
month months
year years yr yrs
knot knots kn
km/h kph
mph
w watt watts
kw kilowatt kilowatts
mw megawatt megawatts
kwh mwh gwh
hp horsepower
"""
_OF_FORM: dict[str, set[int]] = {}
for _number, _line in enumerate(_UNITS.strip().split("\n")):
    for _form in _line.split():
        _OF_FORM.setdefault(_form.replace("_", " ").casefold(), set()).add(_number)

_PREFIXES = ("nautical", "square", "cubic")
_PERCENT = re.compile(r"\s?(?:%|per\s?cent\b)")
_CURRENCY = re.compile(r"([$€£¥₹]|\b[A-Z]{3})\s?$")
_WRITTEN_ON = re.compile(r"[\d¼-¾⅐-⅞]-?([^\W\d_¼-¾⅐-⅞]+(?:/h)?)$")


def unit_beside(text: str, start: int, end: int) -> str:
    """What a number at [start, end) counts: `%`, a currency before it, the word after it, or nothing."""
    if _PERCENT.match(text, end):
        return "%"
    if currency := _CURRENCY.search(text[:start]):
        return currency[1]
    attached = _WRITTEN_ON.search(text[start:end])
    if attached and attached[1].casefold() not in SUFFIXES and is_unit(attached[1]):
        return attached[1]
    after = TOKEN.match(text, end + 1)
    if after is None or after[0].casefold() in STOP_WORDS:
        return ""
    more = TOKEN.match(text, after.end() + 1)
    return f"{after[0]} {more[0]}" if more and after[0].casefold() in _PREFIXES else after[0]


def is_unit(word: str) -> bool:
    """Whether a word is a unit of measurement or a currency that is known here."""
    return bool(_units(word))


def same(some: str, other: str) -> bool:
    """Whether two words are one, or forms of one unit; no unit is the same as none."""
    return some.casefold() == other.casefold() or bool(_units(some) & _units(other))


def differ(some: str, other: str) -> bool:
    """Whether two words name units that are not the same, at least one of them a known unit.

    Words for what is counted may be two names of one thing (`passengers`, `people`).
    """
    named = bool(some and other)
    return named and (is_unit(some) or is_unit(other)) and not same(some, other)


def _units(word: str) -> set[int]:
    folded = word.casefold()
    return _OF_FORM.get(folded) or _OF_FORM.get(folded.split("-")[0], set())

"""Promise 6 for what is computed: a derived row holds only if its arithmetic, done again, gives its value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import get_args

from mrag.documents.quantities import placed_numbers
from mrag.query.unit_words import differ, is_unit, same, unit_beside
from mrag.query.verify import only_orders
from mrag.schema import Derivation, EvidenceRow, Operation, Verdict

_FIGURE = re.compile(r"\d[\d,]*(?:\.(\d+))?")
_SIGNS = {"sum": " + ", "difference": " - ", "ratio": " / ", "average": " + "}
_MOST_DIGITS = 12


@dataclass(frozen=True)
class Claimed:
    """A derived row as the model wrote it: it numbers the rows of its reply from 1, the derived ones last."""

    operation: str
    rows: tuple[int, ...]
    value: str


@dataclass(frozen=True)
class Measure:
    """What a row comes to: an exact value, its unit, and how it is written."""

    row: int
    value: Fraction
    unit: str
    text: str


def derived(
    rows: Sequence[EvidenceRow], claimed: Sequence[Claimed], places: Sequence[int | None]
) -> tuple[tuple[EvidenceRow, ...], tuple[str, ...]]:
    """The derived rows whose arithmetic holds, and a note on those that were dropped.

    `places` has for each row that the model wrote its index among `rows`. A row that is not verified, or
    states no single number, can't be computed from.
    """
    measures = {n: _measure(rows[at], at + 1) for n, at in enumerate(places, 1) if at is not None}
    kept: list[EvidenceRow] = []
    for number, claim in enumerate(claimed, len(places) + 1):
        terms = [measure for row in claim.rows if (measure := measures.get(row))]
        found = _checked(claim, terms) if len(terms) == len(claim.rows) else None
        if found:
            operation, terms, measure = found
            kept.append(_row(operation, terms, measure))
            measures[number] = Measure(len(rows) + len(kept), measure.value, measure.unit, measure.text)
    dropped = len(claimed) - len(kept)
    notes = (f"{dropped} of {len(claimed)} derived rows did not follow from verified rows and were dropped.",)
    return tuple(kept), notes if dropped else ()


def _measure(row: EvidenceRow, number: int) -> Measure | None:
    """The one number, with its unit, of a verified row's value, or of all its cells where it has none.

    Verification leaves units out, so nothing is computed with one that is not beside the number in the quote.
    A row that names none has the quote's.
    """
    if row.verdict is not Verdict.VERIFIED:
        return None
    value = row.cells.get("value")
    others = (cell for column, cell in row.cells.items() if not only_orders(column, cell))
    text = f"{value} {row.cells.get('unit', '')}" if value else "; ".join(others)
    found = _quantity(text.strip())
    if found is None:
        return None
    stated, unit = found
    beside = [
        unit_beside(row.quote, start, end) for start, end, told in placed_numbers(row.quote) if told == stated
    ]
    if beside and all(differ(unit, other) for other in beside):
        return None
    unit = unit or next(filter(is_unit, beside), "")
    return Measure(number, stated, unit, _written(stated, unit))


def _quantity(text: str) -> tuple[Fraction, str] | None:
    """The only number of a text and what it counts."""
    placed = list(placed_numbers(text))
    if len(placed) != 1 or (value := placed[0].value) is None:
        return None
    start, end, _ = placed[0]
    return Fraction(value), unit_beside(text, start, end)


def _checked(claim: Claimed, terms: list[Measure]) -> tuple[Operation, list[Measure], Measure] | None:
    """The arithmetic that gives the value claimed, if there is one; a difference counts in either order."""
    operation = next((name for name in get_args(Operation) if name == claim.operation), None)
    if operation is None or len(terms) < 2 or len({term.row for term in terms}) < len(terms):
        return None
    if operation != "ratio" and any(not same(term.unit, terms[0].unit) for term in terms):
        return None
    for ordered in (terms, terms[::-1]) if operation == "difference" else (terms,):
        exact = _computed(operation, [term.value for term in ordered])
        if exact is not None and (measure := _as_written(claim.value, exact, operation, ordered)):
            return operation, ordered, measure
    return None


def _computed(operation: Operation, values: Sequence[Fraction]) -> Fraction | None:
    if operation == "sum":
        return sum(values, Fraction())
    if operation == "average":
        return sum(values, Fraction()) / len(values)
    if len(values) != 2:
        return None
    if operation == "difference":
        return values[0] - values[1]
    return values[0] / values[1] if values[1] else None


def _as_written(
    written: str, exact: Fraction, operation: Operation, terms: Sequence[Measure]
) -> Measure | None:
    """The exact result where the claimed value is it, in its unit, rounded to the claim's own digits."""
    found = _quantity(written)
    if found is None:
        return None
    stated, unit = found
    if operation != "ratio" and (differ(unit, terms[0].unit) or (unit == "%" and not terms[0].unit)):
        return None
    share = operation == "ratio" and unit == "%"
    step = _step(written, stated)
    if abs((100 * exact if share else exact) - stated) > step / 2 or (stated == 0 != exact):
        return None
    unit = ("%" if share else "") if operation == "ratio" else terms[0].unit
    sign = "=" if (100 * exact if share else exact) == stated else "≈"
    return Measure(0, exact, "" if share else unit, f"{sign} {_written(stated, unit)}")


def _step(written: str, stated: Fraction) -> Fraction:
    """The place of the last digit written: 0.1 of `9.5`, 100000 of `9.5 million`; 0 for words."""
    figure = _FIGURE.search(written)
    if figure is None or not (shown := Fraction(Decimal(figure[0].replace(",", "")))):
        return Fraction(0 if figure is None else 1)
    scale = abs(stated) / shown
    return scale / 10 ** len(figure[1] or "") if scale.denominator == 1 else Fraction(0)


def _row(operation: Operation, terms: Sequence[Measure], result: Measure) -> EvidenceRow:
    numbers = [str(term.row) for term in terms]
    of = f"{', '.join(numbers[:-1])} and {numbers[-1]}"
    arithmetic = _SIGNS[operation].join(term.text.removeprefix("= ").removeprefix("≈ ") for term in terms)
    if operation == "average":
        arithmetic = f"({arithmetic}) / {len(terms)}"
    text = f"{operation} of rows {of}: {arithmetic} {result.text}"
    return EvidenceRow(
        {"derived": text}, "", Verdict.DERIVED, derivation=Derivation(operation, tuple(t.row for t in terms))
    )


def _written(value: Fraction, unit: str) -> str:
    """A value in digits with its unit; one that has no end in digits is cut."""
    digits = value.numerator / Decimal(value.denominator)
    number = f"{digits.normalize():f}" if digits == digits.to_integral() else f"{digits:.{_MOST_DIGITS}g}"
    return f"{number}{unit}" if unit == "%" else f"{number} {unit}".strip()

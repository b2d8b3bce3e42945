"""Metadata filters: whether a document has what a filter asks for. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from operator import ge, gt, le, lt
from typing import Any

from mrag.schema import Condition, DocumentInfo, Filter, Scalar

OWN_FIELDS = ("id", "title")

Passes = Callable[[Any], bool]
Span = tuple[timedelta, timedelta]

_TIME = r"[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?"
_DATE = re.compile(rf"\d{{4}}-\d\d(?:-\d\d(?:{_TIME})?)?", re.ASCII)
_FIRST_DAY = datetime(1, 1, 1, tzinfo=UTC)
_INSTANT = timedelta(microseconds=1)  # the shortest time that a datetime tells
_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {"gt": gt, "gte": ge, "lt": lt, "lte": le}
_SPAN_ORDERS: Mapping[str, Callable[[Span, Span], bool]] = {
    "gt": lambda span, bound: span[0] >= bound[1],
    "gte": lambda span, bound: span[0] >= bound[0],
    "lt": lambda span, bound: span[1] <= bound[0],
    "lte": lambda span, bound: span[1] <= bound[1],
}


def passing(filter_: Filter) -> Callable[[DocumentInfo], bool]:
    """The test of a filter: each of its conditions holds.

    A condition holds where one value of its field passes all of its tests: of a list each item is a value.
    `id` and `title` are the document's own. Numbers are compared as numbers, dates of ISO 8601 as dates: a
    month, a day or an instant (in UTC unless it names an offset) is a span of time. It equals a span that it
    lies within, and is before or after one where all of it is. What is missing, or of another type than it
    is tested by, passes nothing; true is no number.
    """
    conditions = [_holding(condition) for condition in filter_]
    return lambda document: all(holds(document) for holds in conditions)


def _holding(condition: Condition) -> Callable[[DocumentInfo], bool]:
    tests = [_test(name, operands) for name, operands in condition.tests]
    return lambda document: any(
        all(passes(value) for passes in tests) for value in _values(document, condition.field)
    )


def _values(document: DocumentInfo, field: str) -> Sequence[Any]:
    found = getattr(document, field) if field in OWN_FIELDS else document.metadata.get(field)
    return found if isinstance(found, list | tuple) else (found,)


# --------------------------------------------------------------------------- tests of one value


def _test(name: str, operands: Sequence[Scalar]) -> Passes:
    if name in ("equals", "in"):
        return _among(operands)
    [operand] = operands
    if name == "prefix":
        return lambda value: isinstance(value, str) and value.startswith(str(operand))
    return _number_test(name, operand) if is_number(operand) else _date_test(name, str(operand))


def _among(operands: Sequence[Scalar]) -> Passes:
    texts = {operand for operand in operands if isinstance(operand, str)}
    numbers = {operand for operand in operands if is_number(operand)}
    truths = {operand for operand in operands if isinstance(operand, bool)}
    spans = [found for text in texts if (found := span(text))]

    def passes(value: Any) -> bool:
        if isinstance(value, str):
            return value in texts or bool(spans and _within(span(value), spans))
        return value in truths if isinstance(value, bool) else is_number(value) and value in numbers

    return passes


def _within(inner: Span | None, spans: Sequence[Span]) -> bool:
    return inner is not None and any(start <= inner[0] and inner[1] <= end for start, end in spans)


def _number_test(name: str, bound: Scalar) -> Passes:
    order = _ORDERS[name]
    return lambda value: is_number(value) and order(value, bound)


def _date_test(name: str, text: str) -> Passes:
    order, bound = _SPAN_ORDERS[name], span(text)

    def passes(value: Any) -> bool:
        found = span(value) if isinstance(value, str) else None
        return found is not None and bound is not None and order(found, bound)

    return passes


def is_number(value: Any) -> bool:
    """Whether it is a number of JSON: true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


# --------------------------------------------------------------------------- dates


def span(text: str) -> Span | None:
    """The time that a month, a day or an instant takes: [start, end) since the year 1. None for no date."""
    if not _DATE.fullmatch(text):
        return None
    try:
        return _month(text) if len(text) == 7 else _day(text) if len(text) == 10 else _instant(text)
    except ValueError:
        return None


def _month(text: str) -> Span:
    first = date.fromisoformat(f"{text}-01")
    days = (date(first.year, first.month + 1, 1) - first).days if first.month < 12 else 31
    return _days(first, days)


def _day(text: str) -> Span:
    return _days(date.fromisoformat(text), 1)


def _days(first: date, days: int) -> Span:
    start = timedelta(first.toordinal() - _FIRST_DAY.toordinal())
    return start, start + timedelta(days)


def _instant(text: str) -> Span:
    found = datetime.fromisoformat(text)
    start = found.replace(tzinfo=UTC) - _FIRST_DAY - (found.utcoffset() or timedelta())
    return start, start + _INSTANT

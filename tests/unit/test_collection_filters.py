"""Filters: how callers write them, and what of a document passes."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.collection.filter_forms import parse_filter, short_filter
from mrag.collection.filters import passing, span
from mrag.errors import InputError
from mrag.schema import Condition, DocumentInfo


def passes(tree: Any, **metadata: Any) -> bool:
    return passing(parse_filter(tree))(DocumentInfo("reports/2024.md", "The Report", metadata))


@pytest.mark.parametrize(
    ("test", "value", "expected"),
    [
        ("Ada", "Ada", True),
        ("Ada", "ada", False),
        (7, 7.0, True),
        (7, "7", False),
        ("7", 7, False),
        (True, True, True),
        (True, 1, False),
        (1, True, False),
        (False, 0, False),
        (["de", "en"], "en", True),
        ([], "en", False),
        ("en", ["de", "en"], True),
        ({"equals": "en", "prefix": "e"}, "en", True),
        ("en", None, False),
        ("en", {"en": 1}, False),
        ({"gt": 7}, 7, False),
        ({"gte": 7}, 7, True),
        ({"lt": 7.5}, 7, True),
        ({"lte": 7}, 8, False),
        ({"gte": 7}, "8", False),
        ({"gte": 0}, True, False),
        ({"gte": 7, "lt": 9}, [1, 8], True),
        ({"gte": 7, "lt": 9}, [1, 10], False),  # one item passes all tests, or none does
        ({"gte": 2**63}, 2**63 - 1, False),  # as whole numbers: the two are one in floating point
        ({"prefix": "reports/"}, "reports/a.md", True),
        ({"prefix": "reports/"}, "Reports/a.md", False),
        ({"prefix": "1"}, 12, False),
        ({"prefix": ""}, "", True),
    ],
)
def test_a_value_passes_what_it_is_comparable_with(test: Any, value: Any, expected: bool) -> None:
    assert passes({"field": test}, field=value) is expected
    assert passes({"field": test}, other=value) is False


@pytest.mark.parametrize(
    ("test", "value", "expected"),
    [
        ("2024-03-01", "2024-03-01", True),
        ("2024-03", "2024-03-31", True),
        ("2024-03-01", "2024-03-01T23:59:59Z", True),
        ("2024-03-01", "2024-03", False),
        ("2024-03-01", "2024-03-01T23:30:00-02:00", False),  # the next day in UTC
        ({"gte": "2024-03-01"}, "2024-03-01", True),
        ({"gte": "2024-03-01"}, "2024-02-29", False),
        ({"gt": "2024-03-01"}, "2024-03-01T10:00", False),
        ({"lte": "2024-03-01"}, "2024-03-01T10:00", True),
        ({"lt": "2024-03-01"}, "2024-03-01T00:00:00", False),
        ({"lt": "2024-12"}, "2024-11-30", True),
        ({"lte": "2024-12"}, "2024-12-31T23:59:59.999999", True),
        ({"gt": "9999-12"}, "9999-12-31", False),
        ({"lt": "0001-01-01T00:00:00+14:00"}, "0001-01-01", False),
        ("2024-03-01", "2024-03-01T10:00:00.123456789Z", True),
        ({"gte": "2024-03-01"}, "٢٠٢٤-٠٣-٠٢", False),
        ({"gte": "2024-03-01"}, "2024-13-01", False),
        ({"gte": "2024-03-01"}, "2024-03-02\n", False),
        ({"gte": "2024-02-30"}, "2024-03-01", None),
        ({"gte": "2024-03-01"}, "1 March 2024", False),
        ({"gte": "2024-03-01"}, 20240301, False),
        ({"gte": 2024}, "2024-03-01", False),
        ({"lt": "2024-03-01T12:00:00+02:00"}, "2024-03-01T09:59:59Z", True),
        ({"gte": "2024-03-01T12:00:00+02:00"}, "2024-03-01T10:00Z", True),
    ],
)
def test_dates_are_compared_as_the_time_they_take(test: Any, value: Any, expected: bool | None) -> None:
    if expected is None:
        with pytest.raises(InputError, match="a date such as"):
            passes({"date": test})
    else:
        assert passes({"date": test}, date=value) is expected


@given(st.dates(), st.dates(), st.sampled_from(["gt", "gte", "lt", "lte"]))
def test_days_are_in_the_order_of_the_calendar(one: date, other: date, name: str) -> None:
    expected = {"gt": one > other, "gte": one >= other, "lt": one < other, "lte": one <= other}[name]
    assert passes({"date": {name: other.isoformat()}}, date=one.isoformat()) is expected


@given(st.dates())
def test_a_day_lies_within_its_month(day: date) -> None:
    inner, outer = span(day.isoformat()), span(day.isoformat()[:7])
    assert inner
    assert outer
    assert outer[0] <= inner[0] < inner[1] <= outer[1] <= outer[0] + timedelta(31)


def test_all_fields_must_pass_and_id_and_title_are_the_documents_own() -> None:
    tree = {"id": {"prefix": "reports/"}, "title": "The Report", "lang": "en"}
    assert passes(tree, lang="en", id="other", title="other")
    assert not passes(tree, lang="de")
    assert passes({})


@pytest.mark.parametrize(
    ("tree", "sentence"),
    [
        ([], "must be an object"),
        ("year=1", "must be an object"),
        ({"a": None}, "'a' has a wrong 'equals': it must be a number, true, false, or a text"),
        ({"a": {}}, "'a' is empty"),
        ({"a": {"in": None}}, "'a' has a wrong 'in'"),
        ({"a": {"in": "x"}}, "'a' has a wrong 'in'"),
        ({"a": [["x"]]}, "'a' has a wrong 'in'"),
        ({"a": [0] * 1001}, "at most 1000"),
        ({"a": "x" * 1001}, "at most 1000 characters"),
        ({"a": float("nan")}, "'a' has a wrong 'equals'"),
        ({"a": {"gte": True}}, "'a' has a wrong 'gte': it must be a number, or a date"),
        ({"a": {"gte": "M"}}, "'a' has a wrong 'gte': it must be a number, or a date"),
        ({"a": {"prefix": 1}}, "'a' has a wrong 'prefix': it must be a text"),
        ({"a": {"like": "x"}}, "'a' has a wrong 'like': the tests are equals, in, gt"),
        ({"a": {1: "x"}}, "'a' has a wrong '1'"),
        ({1: "x"}, "must be an object"),
        ({str(n): n for n in range(17)}, "at most 16 fields"),
    ],
)
def test_what_is_no_filter_is_refused_by_the_name_of_its_field(tree: Any, sentence: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_filter(tree)
    assert raised.value.field == "filter"
    assert sentence in str(raised.value)
    assert str(raised.value).endswith(".")
    assert "\n" not in str(raised.value)


def test_the_short_form_has_signs() -> None:
    assert short_filter(["year>=2020", "year < 2024", "lang=en", "path^=a=b/", "date<=2024-03-01"]) == (
        Condition("year", (("gte", (2020,)), ("lt", (2024,)))),
        Condition("lang", (("in", ("en",)),)),
        Condition("path", (("prefix", ("a=b/",)),)),
        Condition("date", (("lte", ("2024-03-01",)),)),
    )


@pytest.mark.parametrize(
    ("text", "operands"),
    [
        ("a=7", (7, "7")),
        ("a=-7.50", (-7.5, "-7.50")),
        ("a=true", (True, "true")),
        ("a=007", ("007",)),
        ("a=", ("",)),
        ("a=b c", ("b c",)),
    ],
)
def test_what_may_be_a_number_or_a_text_is_either(text: str, operands: tuple[Any, ...]) -> None:
    ((_, ((_, found),)),) = [(one.field, one.tests) for one in short_filter([text])]
    assert found == operands
    assert [type(one) for one in found] == [type(one) for one in operands]


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (["year"], "must look like field=value"),
        (["=2020"], "must look like field=value"),
        (["year=1", "year=2"], "'year' has = twice"),
        (["name>=M"], "it must be a number, or a date"),
    ],
)
def test_what_is_no_short_form_is_refused(texts: list[str], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        short_filter(texts)

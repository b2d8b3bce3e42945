"""Numbers as people write them: grouping, scale, sign, power, words."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.documents.facts import supports
from mrag.documents.quantities import numbers, placed_numbers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5m", "5000000"),
        ("$5M", "5000000"),
        ("€ 1.2bn", "1200000000"),
        ("5k", "5000"),
        ("5 bn", "5000000000"),
        ("$5B", "5000000000"),
        ("5 millions", "5000000"),
        ("a 5-million-dollar house", "5000000"),
        ("12 lakh", "1200000"),
        ("12,34,567", "1234567"),
        ("1 000 000 EUR", "1000000"),
        ("1\u00a0000\u2009000", "1000000"),
        ("1\u202f000,50", "1000.5"),
        ("1.000.000", "1000000"),
        ("1.250,50", "1250.5"),
        ("1.000 EUR", "1000"),
        ("EUR 1.000", "1000"),
        ("1'000'000", "1000000"),
        ("0.125", "0.125"),
        ("\u20115", "-5"),
        ("\u20105", "-5"),
        ("\ufe635", "-5"),
        ("of − 40 degrees", "-40"),
        ("-$5", "-5"),
        ("minus 5", "-5"),
        ("minus five", "-5"),
        ("$(5)", "-5"),
        ("a loss of (5) million", "-5000000"),
        ("(1,250) EUR", "-1250"),
        ("5×10^6", "5000000"),
        ("5 x 10^6", "5000000"),
        ("5·10⁶", "5000000"),
        ("5×10⁻³", "0.005"),
        ("10^6", "1000000"),
        ("two million five hundred thousand", "2500000"),
        ("2 million 500 thousand", "2500000"),
        ("two hundred and five", "205"),
        ("twenty five", "25"),
        ("twenty-one", "21"),
        ("five-million", "5000000"),
        ("five hundred and sixty thousand", "560000"),
        ("half a million", "500000"),
        ("two and a half million", "2500000"),
        ("two dozen", "24"),
        ("3½ acres", "3.5"),
        ("3 ½ acres", "3.5"),
        ("3 1/2 acres", "3.5"),
        ("½ of it", "0.5"),
        ("a 2½-mile walk", "2.5"),
        ("$3½m", "3500000"),
        ("3 ½ million", "3500000"),
        ("\u20113¾", "-3.75"),
    ],
)
def test_a_number_is_read_whole(text: str, expected: str) -> None:
    assert numbers(text) == {Decimal(expected)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 − 4", {10, 4}),
        ("10 minus 4", {10, 4}),
        ("10-4", set()),
        ("- 5 men", {5}),
        ("revenue doubled ($5 million)", {5000000}),
        ("the crew (5) and the captain", {5}),
        ("5 million 90 men", {5000000, 90}),
        ("two hundred and three hundred", {200, 300}),
        ("a mast 5m-long", {5}),
        ("5 x 10 cm", {5, 10}),
        ("millions of men", set()),
        ("one of them", set()),
        ("at 12:30", set()),
        ("12.345", set()),
        ("12/03/2024", set()),
        ("5m²", set()),
        ("the 12th man", set()),
        ("the 21st-century house", set()),
        ("10 -5", {10}),
        ("5% -3%", {5}),
        ("from 10 –5 to 4", {10, 4}),
        ("in 1962. Million by million", {1962, 1000000}),
        ("in 1962 300 men", {1962, 300}),
        ("in 1962 ½ of them", {1962, Decimal("0.5")}),
        ("3⅓ acres", set()),
        ("3 2/3 acres", set()),
        ("24/7", set()),
        ("on 5 3/4/2020", {5}),
    ],
)
def test_what_only_looks_like_another_number_is_none(text: str, expected: set[int | Decimal]) -> None:
    assert numbers(text) == expected


@pytest.mark.parametrize(
    ("quote", "claim", "holds"),
    [
        ("cost $5bn", "$5", False),
        ("cost 5bn", "5m", False),
        ("cost 5bn", "5 billion", True),
        ("paid 1.000 EUR", "1 EUR", False),
        ("paid 1 000 000 EUR", "1 EUR", False),
        ("paid 1 000 000 EUR", "1,000,000", True),
        ("it weighs 1.250 kg", "1.250 kg", True),
        ("it weighs 1.250 kg", "1250 kg", False),
        ("at \u20115 degrees", "5 degrees", False),
        ("at 12:30 they left", "12 men left", False),
        ("at 12:30 they left", "left at 12:30", True),
        ("On 12 March 2024 the club met", "12 members", False),
        ("On 12 March 2024 the club met", "in 2024", True),
        ("half a million men", "a million men", False),
        (f"{'9' * 30} trillion", f"{'9' * 29}8 trillion", False),
        ("nine trillion", f"{'9' * 400} trillion", False),
        ("nine trillion", "9 " + "trillion " * 500, False),
        ("nine", "9×10^999", False),
        ("3½ acres", "3 acres", False),
        ("3 1/2 acres", "3 acres", False),
        ("3½ acres", "3¼ acres", False),
        ("½ full", "¾ full", False),
        ("3½ acres", "three and a half acres", True),
        ("3⅓ acres", "3⅓ acres", True),
        ("3⅓ acres", "3⅔ acres", False),
        ("There are 10^80 atoms.", "There are 10^80 atoms.", True),
        ("There are 10^80 atoms.", "There are 10^81 atoms.", False),
        ("There are 10^80 atoms.", "There are 10 atoms.", False),
        (f"{'9' * 39} trillion", f"{'9' * 39} trillion", True),
    ],
)
def test_a_claim_has_the_whole_number(quote: str, claim: str, holds: bool) -> None:
    assert supports(quote, claim) == holds


PARTS = st.sampled_from(
    [
        *(
            "5",
            "1.000",
            "000",
            "m",
            "bn",
            "EUR",
            "$",
            "(",
            ")",
            "-",
            "−",
            "minus",
            "×",
            "10^6",
            "⁶",
            "and",
            "a",
        ),
        *(
            "half",
            "two",
            "one",
            "twenty",
            "hundred",
            "million",
            "dozen",
            ":",
            "12:30",
            ".",
            ",",
            "9" * 50,
            " ",
            "½",
            "⅓",
            "1/2",
            "10^999",
        ),
    ]
)


@given(st.lists(PARTS, max_size=12).map("".join) | st.lists(PARTS, max_size=12).map(" ".join) | st.text())
def test_numbers_of_any_text_follow_each_other(text: str) -> None:
    end = 0
    for start, stop, value in placed_numbers(text):
        assert end <= start < stop <= len(text)
        assert value is None or value.is_finite()
        end = stop
    assert supports(text, text)

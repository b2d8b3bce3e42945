"""Derived rows: arithmetic on verified rows, done again exactly; everything else is dropped and said so."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.query.derive import Claimed, derived
from mrag.schema import Derivation, EvidenceRow, Source, Verdict

SOURCE = Source("ferries.md", "Ferries", (1,))


def row(value: str, unit: str = "", verdict: Verdict = Verdict.VERIFIED) -> EvidenceRow:
    cells = {"entity": "Alma", "dimension": "passengers", "value": value, "unit": unit}
    return EvidenceRow(cells, "so it is", verdict, SOURCE if verdict is Verdict.VERIFIED else None)


def fact(text: str) -> EvidenceRow:
    return EvidenceRow({"fact": text}, text, Verdict.VERIFIED, SOURCE)


def computed(rows: list[EvidenceRow], *claimed: Claimed) -> list[str]:
    """The arithmetic of what is kept."""
    kept, notes = derived(rows, claimed, range(len(rows)))
    assert all(one.verdict is Verdict.DERIVED and one.quote == "" and one.source is None for one in kept)
    dropped = len(claimed) - len(kept)
    said = f"{dropped} of {len(claimed)} derived rows did not follow from verified rows and were dropped."
    assert notes == ((said,) if dropped else ())
    return [one.cells["derived"] for one in kept]


NUMBERS = [row("90"), row("forty"), row("1.5", "million"), row("300 thousand"), row("0")]


@pytest.mark.parametrize(
    ("operation", "rows", "value", "arithmetic"),
    [
        ("difference", (1, 2), "50", "difference of rows 1 and 2: 90 - 40 = 50"),
        ("difference", (2, 1), "50", "difference of rows 1 and 2: 90 - 40 = 50"),
        ("difference", (2, 1), "-50", "difference of rows 2 and 1: 40 - 90 = -50"),
        ("sum", (1, 2), "130", "sum of rows 1 and 2: 90 + 40 = 130"),
        ("sum", (3, 4), "1.8 million", "sum of rows 3 and 4: 1500000 + 300000 = 1800000"),
        ("sum", (3, 4), "1,800,000", "sum of rows 3 and 4: 1500000 + 300000 = 1800000"),
        ("sum", (1, 2, 5), "130", "sum of rows 1, 2 and 5: 90 + 40 + 0 = 130"),
        ("average", (1, 2), "65", "average of rows 1 and 2: (90 + 40) / 2 = 65"),
        ("average", (1, 2, 5), "43.33", "average of rows 1, 2 and 5: (90 + 40 + 0) / 3 ≈ 43.33"),
        ("ratio", (1, 2), "2.25", "ratio of rows 1 and 2: 90 / 40 = 2.25"),
        ("ratio", (1, 2), "2.3", "ratio of rows 1 and 2: 90 / 40 ≈ 2.3"),
        ("ratio", (1, 2), "2", "ratio of rows 1 and 2: 90 / 40 ≈ 2"),
        ("ratio", (2, 1), "44.4%", "ratio of rows 2 and 1: 40 / 90 ≈ 44.4%"),
        ("ratio", (2, 1), "0.444", "ratio of rows 2 and 1: 40 / 90 ≈ 0.444"),
    ],
)
def test_arithmetic_that_holds_is_kept(
    operation: str, rows: tuple[int, ...], value: str, arithmetic: str
) -> None:
    assert computed(NUMBERS, Claimed(operation, rows, value)) == [arithmetic]


@pytest.mark.parametrize(
    ("operation", "rows", "value"),
    [
        ("difference", (1, 2), "51"),
        ("difference", (1, 2), "50.1"),
        ("difference", (1, 2, 5), "50"),
        ("sum", (1, 2), "-130"),
        ("sum", (1, 2), "one hundred and thirty-one"),
        ("sum", (1,), "90"),
        ("sum", (1, 1), "180"),
        ("sum", (1, 6), "90"),
        ("sum", (0, 1), "90"),
        ("sum", (-1, 1), "90"),
        ("sum", (), "0"),
        ("sum", (3, 4), "1.7 million"),
        ("average", (1, 2), "60"),
        ("average", (1, 2, 5), "43.34"),
        ("ratio", (1, 5), "0"),
        ("ratio", (5, 1), "1"),
        ("ratio", (2, 1), "0"),
        ("ratio", (2, 1), "44.5%"),
        ("product", (1, 2), "3600"),
        ("difference", (1, 2), ""),
        ("difference", (1, 2), "50 of 60"),
        ("difference", (1, 2), "many"),
    ],
)
def test_arithmetic_that_does_not_hold_is_dropped(operation: str, rows: tuple[int, ...], value: str) -> None:
    assert computed(NUMBERS, Claimed(operation, rows, value)) == []


def test_words_are_compared_exactly() -> None:
    assert computed(NUMBERS, Claimed("sum", (1, 2), "one hundred and thirty")) != []


def test_nothing_is_computed_from_a_row_that_is_not_verified() -> None:
    rows = [row("90"), row("40", verdict=Verdict.UNVERIFIED)]
    assert computed(rows, Claimed("sum", (1, 2), "130")) == []


@pytest.mark.parametrize(
    ("some", "other", "operation", "value", "kept"),
    [
        (row("90", "km"), row("40", "km"), "sum", "130 km", "sum of rows 1 and 2: 90 km + 40 km = 130 km"),
        (row("90", "km"), row("40", "m"), "sum", "130", None),
        (row("90", "km"), row("40", "km"), "sum", "130 miles", None),
        (row("90", "km"), row("40", "km"), "average", "65%", None),
        (row("90"), row("40"), "sum", "130%", None),
        (row("90"), row("40"), "sum", "130 km", "sum of rows 1 and 2: 90 + 40 = 130"),
        (row("90½km"), row("3 1/2", "km"), "sum", "94", "sum of rows 1 and 2: 90.5 km + 3.5 km = 94 km"),
        (row("90½km"), row("3½m"), "sum", "94", None),  # 3.5 million
        (row("9⅓", "km"), row("4", "km"), "sum", "13", None),
        (row("90 km"), row("40", "km"), "sum", "130", "sum of rows 1 and 2: 90 km + 40 km = 130 km"),
        (row("90", "km"), row("40", "h"), "ratio", "2.25", "ratio of rows 1 and 2: 90 km / 40 h = 2.25"),
        (row("$90"), row("€40"), "sum", "130", None),
        (row("56", "percent"), row("4%"), "sum", "60%", "sum of rows 1 and 2: 56% + 4% = 60%"),
        (row("90 to 95"), row("5"), "sum", "95", None),
        (row("the 3rd"), row("5"), "sum", "8", None),
        (row("unknown"), row("5"), "sum", "5", None),
        (
            fact("Alma was built in 1962."),
            fact("Runa was built in 1901."),
            "difference",
            "61",
            "difference of rows 1 and 2: 1962 - 1901 = 61",
        ),
        (fact("Alma has 90 seats and 2 decks."), fact("Runa has 40 seats."), "sum", "130", None),
        (fact("Alma has 90 seats."), fact("Runa has 40 masts."), "sum", "130", None),
    ],
)
def test_units_are_minded(
    some: EvidenceRow, other: EvidenceRow, operation: str, value: str, kept: str | None
) -> None:
    assert computed([some, other], Claimed(operation, (1, 2), value)) == ([kept] if kept else [])


def measured(value: str, unit: str, quote: str) -> EvidenceRow:
    return replace(row(value, unit), quote=quote)


@pytest.mark.parametrize(
    ("unit", "some", "other", "kept"),
    [
        ("km", "She sails 90 miles.", "She sails 40 km.", None),
        ("km", "She carries 90 passengers.", "She sails 40 km.", None),
        ("", "She sails 90 miles.", "She sails 40 km.", None),
        ("miles", "It is 90 nautical miles.", "It is 40 miles.", None),
        ("USD", "It costs €90.", "It costs $40.", None),
        ("USD", "It costs $90.", "It costs 40 dollars.", "90 USD + 40 USD"),
        ("km", "She sails 90 kilometres.", "a 40-kilometre trip", "90 km + 40 km"),
        ("km", "She sails 90km.", "It is 40 (one way).", "90 km + 40 km"),
        ("", "She sails 90 km.", "40 kilometres of it", "90 km + 40 kilometres"),
        ("seats", "There are 90 places.", "It has 40 seats.", "90 seats + 40 seats"),
        ("km", "It is 90 miles, or 90 km.", "so it is", "90 km + 40 km"),
        ("million USD", "It cost $90 million.", "It cost 40 million.", "90000000 USD + 40000000 USD"),
    ],
)
def test_units_are_those_of_the_quotes(unit: str, some: str, other: str, kept: str | None) -> None:
    rows = [replace(row("90", unit), quote=some), replace(row("40", unit), quote=other)]
    value = "130 million" if "million" in unit else "130"
    arithmetic = computed(rows, Claimed("sum", (1, 2), value))
    assert [one.split(": ")[1].split(" = ")[0] for one in arithmetic] == ([kept] if kept else [])


def test_nothing_is_computed_from_a_number_that_only_orders_rows() -> None:
    rows = [
        EvidenceRow({"event": f"{ship} sank.", "position": n}, f"{ship} sank.", Verdict.VERIFIED, SOURCE)
        for ship, n in (("Alma", "3"), ("Runa", "4"))
    ]
    assert computed(rows, Claimed("sum", (1, 2), "7")) == []


def test_a_row_may_be_computed_from_a_computed_one() -> None:
    # The turnover of the paper's case: revenue by the average of two years' assets.
    rows = [row("100"), row("3"), row("4")]
    first, second = Claimed("average", (2, 3), "3.5"), Claimed("ratio", (1, 4), "28.57")
    kept, notes = derived(rows, (first, second), range(3))
    assert [one.cells["derived"] for one in kept] == [
        "average of rows 2 and 3: (3 + 4) / 2 = 3.5",
        "ratio of rows 1 and 4: 100 / 3.5 ≈ 28.57",
    ]
    assert [one.derivation for one in kept] == [Derivation("average", (2, 3)), Derivation("ratio", (1, 4))]
    assert notes == ()
    wrong = Claimed("average", (2, 3), "4")
    assert derived(rows, (Claimed("sum", (2, 3), "8"), second), range(3))[0] == ()
    assert derived(rows, (wrong, second), range(3))[0][0].derivation == Derivation("average", (2, 3))


def test_rows_are_those_that_the_model_wrote() -> None:
    rows = [row("90"), row("40")]
    # It wrote three rows, the second of which was none, and means the first and the third.
    kept, _ = derived(rows, (Claimed("sum", (1, 3), "130"),), (0, None, 1))
    assert [one.derivation for one in kept] == [Derivation("sum", (1, 2))]
    assert derived(rows, (Claimed("sum", (1, 2), "130"),), (0, None, 1))[0] == ()


# With three decimals a figure may have a thousand's point (`1.000`): no number is read from it.
DIGITS = st.sampled_from([0, 1, 2, 4])
VALUES = st.lists(st.decimals(-(10**6), 10**6, places=2), min_size=2, max_size=5)


@given(VALUES, st.sampled_from(["sum", "difference", "ratio", "average"]), DIGITS, st.data())
def test_a_derived_row_is_recomputed_exactly(
    values: list, operation: str, digits: int, data: st.DataObject
) -> None:  # type: ignore[type-arg]
    values = values[:2] if operation in ("difference", "ratio") else values
    exact = [Fraction(value) for value in values]
    if operation == "ratio" and not exact[1]:
        return
    result = {
        "sum": lambda: sum(exact),
        "average": lambda: sum(exact) / len(exact),
        "difference": lambda: exact[0] - exact[1],
        "ratio": lambda: exact[0] / exact[1],
    }[operation]()
    rounded = round(result, digits)
    off = data.draw(st.sampled_from([0, 1, -1, 7]))
    stated = rounded + Fraction(off, 10**digits)
    claim = Claimed(operation, tuple(range(1, len(values) + 1)), f"{float(stated):.{digits}f}")
    kept, _ = derived([row(f"{value:f}") for value in values], (claim,), range(len(values)))
    written = Fraction(claim.value)
    holds = abs(result - written) <= Fraction(1, 2 * 10**digits) and not (written == 0 != result)
    mirrored = operation == "difference" and abs(result + written) <= Fraction(1, 2 * 10**digits)
    assert bool(kept) == (holds or (mirrored and not (written == 0 != result)))

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrag.evaluation import metrics
from mrag.evaluation.metrics import (
    Interval,
    Part,
    contains_answer,
    exact_match,
    f1,
    interval,
    normalised,
    paired_interval,
    ratio_interval,
)


def test_normalisation_drops_case_punctuation_and_articles() -> None:
    assert normalised("  The Anchor, an  OLD-one! ") == "anchor oldone"


@pytest.mark.parametrize(
    ("text", "right"),
    [("6 June 2023", True), ("the 6 June, 2023.", True), ("16 June 2023", False), ("", False)],
)
def test_exact_match(text: str, right: bool) -> None:
    assert exact_match(text, ["6 June 2023"]) is right


def test_f1_counts_shared_words() -> None:
    assert f1("Rurik Tamsin designed it", ["Rurik Tamsin"]) == pytest.approx(2 * 0.5 * 1 / 1.5)
    assert f1("nobody", ["Rurik Tamsin", "nobody"]) == 1.0
    assert f1("", ["x"]) == 0.0
    assert f1("x", []) == 0.0


def test_contained_answers_are_whole_words() -> None:
    assert contains_answer("They pay 46 euros a day.", ["46 euros", "46"])
    assert not contains_answer("They pay 460 euros a day.", ["46 euros", "46"])
    assert not contains_answer("anything", ["", "the"])


# --------------------------------------------------------------------------- properties and intervals

WORDS = st.lists(st.sampled_from(["ada", "the", "1843", "engine", "Ada,"]), max_size=5).map(" ".join)


@given(WORDS, st.lists(WORDS, min_size=1, max_size=3))
def test_f1_and_exact_match_agree_where_they_must(text: str, answers: list[str]) -> None:
    value = f1(text, answers)
    assert 0.0 <= value <= 1.0
    assert not exact_match(text, answers) or value == 1.0
    assert value == pytest.approx(max(f1(text, [answer]) for answer in answers))
    assert f1(text, [answers[0]]) == pytest.approx(f1(answers[0], [text]))


def test_an_interval_is_what_the_normal_law_says_of_many() -> None:
    found = interval([0.0] * 300 + [1.0] * 100)
    half = 1.96 * (0.25 * 0.75 / 400) ** 0.5
    assert (found.mean, found.count) == (0.25, 400)
    assert found.low == pytest.approx(0.25 - half, abs=0.006)
    assert found.high == pytest.approx(0.25 + half, abs=0.006)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.integers(0, 3))
def test_an_interval_holds_the_mean_and_is_the_same_for_a_seed(values: list[float], seed: int) -> None:
    found = interval(values, seed)
    assert found == interval(values, seed)
    assert min(values) - 1e-9 <= found.low <= found.mean + 1e-9
    assert found.mean - 1e-9 <= found.high <= max(values) + 1e-9


def test_many_questions_are_drawn_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [0.0, 1.0, 1.0]
    whole = interval(values)
    monkeypatch.setattr(metrics, "_DRAWN_AT_ONCE", 7)
    assert interval(values) == whole


def test_nothing_has_no_interval() -> None:
    with pytest.raises(ValueError, match="at least one"):
        interval([])


# --------------------------------------------------------------------------- sums by sums, and differences

PARTS = st.lists(
    st.just(Part(0, 0)) | st.builds(Part, st.floats(0, 4), st.sampled_from([1.0, 2.0])),
    min_size=1,
    max_size=12,
)


def test_a_ratio_is_of_the_sums_over_the_questions_it_concerns() -> None:
    found = ratio_interval([Part(1, 2), Part(0, 0), Part(0, 2), Part(3, 4)])
    assert (found.mean, found.count) == (4 / 8, 3)
    assert 0.0 <= found.low < found.mean < found.high <= 3 / 4
    assert ratio_interval([Part(3, 4), Part(0, 0)]) == Interval(0.75, 0.75, 0.75, 1)


def test_what_is_the_same_for_every_question_is_certain() -> None:
    base = [0.0, 1.0, 0.25, 0.5]
    found = paired_interval([Part(value + 0.25) for value in base], [Part(value) for value in base])
    assert (found.mean, found.low, found.high) == pytest.approx((0.25, 0.25, 0.25))
    assert found.count == 4


def test_a_difference_is_what_the_normal_law_says_of_many() -> None:
    """100 of 400 questions gained, 40 lost."""
    ours = [Part(1.0)] * 100 + [Part(0.0)] * 40 + [Part(1.0)] * 260
    base = [Part(0.0)] * 100 + [Part(1.0)] * 40 + [Part(1.0)] * 260
    found = paired_interval(ours, base)
    half = 1.96 * ((140 / 400 - 0.15**2) / 400) ** 0.5
    assert found.mean == pytest.approx(0.15)
    assert found.low == pytest.approx(0.15 - half, abs=0.006)
    assert found.high == pytest.approx(0.15 + half, abs=0.006)


@settings(max_examples=25)
@given(PARTS, PARTS, st.integers(0, 2))
def test_a_difference_turned_round_is_its_negative(one: list[Part], other: list[Part], seed: int) -> None:
    size = min(len(one), len(other))
    one, other = one[:size], other[:size]
    if not all(any(part.of for part in side) for side in (one, other)):
        with pytest.raises(ValueError, match="both sides"):
            paired_interval(one, other, seed)
        return
    found, turned = paired_interval(one, other, seed), paired_interval(other, one, seed)
    assert (found.mean, found.low, found.high) == pytest.approx((-turned.mean, -turned.high, -turned.low))
    assert found.mean == pytest.approx(ratio_interval(one).mean - ratio_interval(other).mean)

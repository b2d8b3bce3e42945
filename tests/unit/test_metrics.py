from __future__ import annotations

import pytest

from mrag.evaluation.metrics import contains_answer, exact_match, f1, normalised


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

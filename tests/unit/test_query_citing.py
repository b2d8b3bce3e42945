"""Citations: marks are taken out of the text, and a rule finds the rows where there are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.query.citing import attributed, without_marks
from mrag.schema import EvidenceRow, Source, Verdict


@pytest.mark.parametrize(
    ("reply", "text", "numbers"),
    [
        ("1962 [2]", "1962", (2,)),
        ("1962[2]", "1962", (2,)),
        ("Alma [3] and Runa [1].", "Alma and Runa.", (3, 1)),
        ("Alma [1, 3]", "Alma", (1, 3)),
        ("Alma [1;3] [3][2]", "Alma", (1, 3, 2)),
        ("Alma [row 2]", "Alma", (2,)),
        ("Alma [Rows 1, 2]", "Alma", (1, 2)),
        ("[1] Alma", "Alma", (1,)),
        ("Alma", "Alma", ()),
        ("Alma [sic]", "Alma [sic]", ()),
        ("the matrix [1.5]", "the matrix [1.5]", ()),
        ("[2]", "", (2,)),
        ("Alma [0] [99]", "Alma", (0, 99)),
        ("Alma [[1]2]", "Alma", (1, 2)),
    ],
)
def test_marks_become_numbers(reply: str, text: str, numbers: tuple[int, ...]) -> None:
    assert without_marks(reply) == (text, numbers)


@given(st.text("ab1 [],;2", max_size=20))
def test_no_mark_is_left(reply: str) -> None:
    text, _ = without_marks(reply)
    assert without_marks(text) == (text, ())


def row(fact: str) -> EvidenceRow:
    return EvidenceRow({"fact": fact}, fact, Verdict.VERIFIED, Source("d", "", (1,)))


ROWS = {
    1: row("The ferry Alma was built in Gdansk in 1962."),
    3: row("The barge Runa carries forty passengers."),
    4: EvidenceRow({"derived": "difference of rows 1 and 3: 90 - 40 = 50"}, "", Verdict.DERIVED),
}


@pytest.mark.parametrize(
    ("question", "answer", "cited"),
    [
        ("When was Alma built?", "1962", (2,)),
        ("When was Runa sold?", "1962", (1,)),
        ("", "1962", (1,)),
        ("Was Alma built in 1962?", "Yes.", (2,)),
        ("Were Alma and Runa both built in 1962?", "no", (2, 1)),
        ("Was the bridge repaired?", "yes", ()),
        ("Was Alma built in 1962?", "unknown", ()),
    ],
)
def test_the_question_decides_between_rows_that_say_the_answer(
    question: str, answer: str, cited: tuple[int, ...]
) -> None:
    rows = {1: row("Runa was sold in 1962."), 2: row("Alma was built in 1962.")}
    assert attributed(answer, rows, question) == cited


def test_a_number_that_only_orders_rows_is_cited_by_none() -> None:
    cells = {"event": "The ferry Alma sank", "position": "7"}
    rows = {1: EvidenceRow(cells, "The ferry Alma sank in a storm.", Verdict.VERIFIED)}
    assert attributed("7", rows) == ()
    assert attributed("Alma", rows) == (1,)
    moored = {1: EvidenceRow({"position": "berth 7"}, "Alma lies at berth 7.", Verdict.VERIFIED)}
    assert attributed("7", moored) == (1,)


@pytest.mark.parametrize(
    ("answer", "cited"),
    [
        ("1962", (1,)),
        ("Runa", (3,)),
        ("40", (3,)),
        ("40 passengers on the Runa, and Alma is of 1962", (3, 1)),
        ("Alma is of 1962, Runa has 40", (1, 3)),
        ("50", (4,)),
        ("unknown", ()),
        ("yes", ()),
        ("the", ()),
        ("", ()),
        ("1963", ()),
        ("built by Corvane", (1,)),
    ],
)
def test_an_answer_is_attributed_to_the_rows_that_say_it(answer: str, cited: tuple[int, ...]) -> None:
    assert attributed(answer, ROWS) == cited
    assert attributed(answer, {}) == ()

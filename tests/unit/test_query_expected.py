"""What a question asks for, and whether a row states it."""

from __future__ import annotations

import pytest

from mrag.query.expected import unmet
from mrag.schema import EvidenceRow, Verdict


def row(fact: str) -> EvidenceRow:
    return EvidenceRow({"fact": fact}, fact, Verdict.VERIFIED)


@pytest.mark.parametrize(
    ("question", "fact", "lacking"),
    [
        ("How much is paid for meals?", "Meals in a hotel bill are not deducted.", "number"),
        ("How much is paid for meals?", "46 euros are paid for meals.", None),
        ("How long is the warranty?", "It lasts three years.", None),
        ("How long was it away?", "It was away until 4 December 2023.", None),
        ("When was the ferry built?", "The ferry carries 90 passengers.", "date"),
        ("When was the ferry built?", "The ferry was built in 1962.", None),
        ("On what date was it signed?", "It was signed on 6 June.", None),
        ("In which year did it sink?", "It sank in a storm.", "date"),
        ("Who designed it, and how often is it checked?", "Ada designed it.", None),
        ("What is the salary of Ada?", "The director is Ada.", "number"),
        ("What was its total net revenue?", "It rose to 12 million.", None),
        ("What is the height of the old tower?", "It is of stone.", "number"),
        ("What is the name of the tower?", "It is of stone.", None),
        ("Which ferry is older?", "The Alma is older.", None),
        ("Who was the captain when the Alma sank?", "Rurik Tamsin was the captain.", None),
        ("When the Alma sank, who was its captain?", "Rurik Tamsin was the captain.", None),
        ("The Alma was built when?", "The Alma was built in Gdansk.", "date"),
        ("Who designed it and when did it sink?", "Ada designed it.", "date"),
        ("How many children had he?", "He had no children.", None),
        ("How many of the two were sold?", "Both were sold.", None),
        ("How many were sold?", "Some were sold.", "number"),
        ("How many ferries had he?", "He had no children.", "number"),
        (
            "How much is paid for meals?",
            "Meals of a hotel bill are not deducted, so no receipts are kept.",
            "number",
        ),
        ("How long was it away?", "Neither of them was away.", "number"),
    ],
)
def test_a_date_or_a_number_is_missed_where_no_row_states_one(
    question: str, fact: str, lacking: str | None
) -> None:
    assert unmet(question, [row("The pier is old."), row(fact)]) == lacking
    assert unmet(question, [row(fact), row("The pier is old.")]) == lacking

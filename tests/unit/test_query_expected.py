"""What a question asks for, and whether a row states it."""

from __future__ import annotations

import pytest

from mrag.query.expected import unmet
from mrag.schema import EvidenceRow, Verdict


def row(fact: str) -> EvidenceRow:
    return EvidenceRow({"fact": fact}, fact, Verdict.VERIFIED)


def test_what_only_orders_rows_is_not_what_is_asked_for() -> None:
    ordered = EvidenceRow({"event": "Alma sank.", "position": "7"}, "Alma sank.", Verdict.VERIFIED)
    assert unmet("How many ships sank?", [ordered]) == "number"


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
        ("What is the order number of the winch?", "The winch has order number OI-2023-017.", None),
        ("How long is the course?", "The course lasts one full week.", None),
        ("How long is the course?", "One must pass the course.", "number"),
        ("How many ships sank?", "One ship sank.", None),
        ("How many ships sank?", "A single ship sank.", None),
        ("How far is it?", "It stands at the 12th milestone.", None),
        ("Which day is the market held?", "It is held on Saturday.", None),
        ("Which day is the market held?", "It is held on weekdays.", None),
        ("Which month does the season begin?", "It begins in May.", None),
        ("Which month does the season begin?", "It may begin late.", "date"),
        ("When is the personnel desk open?", "It is open every weekday morning.", None),
        ("When does core time begin?", "It begins from 9:30 on.", None),
        ("When does core time begin?", "It begins at 9 a.m. sharp.", None),
        ("When was the chapel built?", "It was built in the 12th century.", None),
        ("When was the chapel built?", "It was built in the 1990s.", None),
        ("When was the town founded?", "It was founded in 44 BC.", None),
        ("When is the report due?", "It is due thirty days after the quarter ends.", None),
        ("When is the report due?", "It is due within 30 working days.", None),
        ("When did it sink?", "It was at sea for three years.", "date"),
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

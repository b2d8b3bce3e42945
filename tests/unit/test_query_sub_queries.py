"""Sub-queries by rule: what a question compares, quotes and names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.query.sub_queries import MOST_SUB_QUERIES, sub_queries


@pytest.mark.parametrize(
    ("question", "queries"),
    [
        (
            "Which film was released first, The Red Harbour or Blue Night?",
            ("The Red Harbour film released first", "Blue Night film released first"),
        ),
        (
            "Were Scott Derrickson and Ed Wood of the same nationality?",
            ("Scott Derrickson nationality", "Ed Wood nationality"),
        ),
        (
            "What is the difference between the red bridge and the blue tower?",
            ("the red bridge difference", "the blue tower difference"),
        ),
        ("Are both Kalle of Sweden and Anna from Norway?", ("Kalle of Sweden", "Anna from Norway")),
        (
            "Do director of film Coolie No. 1 and director of film Hot Trial agree?",
            ("Coolie No. 1 director film agree", "Hot Trial director film agree"),
        ),
        ('Who sang "Let it be" in 1970?', ("Let it be",)),
        ("Which engineer is the designer of the Tidewren 4 wave sensor?", ("Tidewren 4",)),
        (
            "Where was the director of The Lighthouse at\n Holm born?",
            ("Lighthouse director born", "Holm director born"),
        ),
        ("In Paris, who is mayor?", ("Paris",)),
        ("which ferry is older?", ()),
        ("Which ferry is older?", ()),
        ("Ada Lovelace?", ()),
        ("谁设计了渡船？", ()),
        ("", ()),
    ],
)
def test_a_question_has_these_parts(question: str, queries: tuple[str, ...]) -> None:
    assert sub_queries(question) == queries


@given(st.text(st.sampled_from('Aab or,and?"“” \n漢between Both.'), max_size=80))
def test_there_are_few_and_none_is_the_question_or_empty(question: str) -> None:
    found = sub_queries(question)
    assert len(found) <= MOST_SUB_QUERIES
    assert all(query.strip() and query != question for query in found)

"""A query in Lucene's own language says of each word what it is, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mrag.collection.jvm import cast, java
from mrag.collection.sparse import TEXT, any_of

SEARCH = "org.apache.lucene.search"
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)
boosts = st.floats(2**-20, 2**20, width=32)


def read(query: Any) -> tuple[str, str, float]:
    """Field, word and boost of a query of one word."""
    boosted = cast(f"{SEARCH}.BoostQuery", query)
    term = cast(f"{SEARCH}.TermQuery", boosted.getQuery()).getTerm()
    return term.field(), term.text(), boosted.getBoost()


@given(words, boosts.filter(lambda boost: boost != 1))
@example("AND", 2.0)
@example("a\\u0041*", 2**-20)
@example('title:"x y"~2', 123456.7)
def test_a_word_is_looked_for_as_it_is(word: str, boost: float) -> None:
    with java("Lucene can't search", "see what it says"):
        assert read(any_of([(word, boost)])) == (TEXT, word, np.float32(boost))


@pytest.mark.parametrize("operator", ["AND", "OR", "NOT", "&&", "||", "!", "+", "-", "TO"])
def test_no_word_is_an_operator(operator: str) -> None:
    with java("Lucene can't search", "see what it says"):
        query = cast(f"{SEARCH}.BooleanQuery", any_of([("harbour", 2.0), (operator, 3.0), ("bridge", 4.0)]))
        clauses = query.clauses()
        assert [clauses.get(place).getOccur().name() for place in range(clauses.size())] == ["SHOULD"] * 3

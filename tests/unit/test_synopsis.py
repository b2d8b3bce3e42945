"""Synopses (SANE eqs. 4 to 7), computed by hand."""

from __future__ import annotations

from collections import Counter
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.query.synopsis import (
    SynopsisLimits,
    excerpt,
    inverse_frequencies,
    keywords,
    metadata_line,
    synopses,
)
from mrag.schema import Candidate, Record
from tests.query_pool import candidate, info, unit

LIMITS = SynopsisLimits()


def words(text: str) -> int:
    return len(text.split())


FERRY = candidate("The ferry Alma sails. The ferry carries mail to Holm.", "ferry", title="Ferries")
BARGE = candidate("The barge Runa sails. The barge is old.", "barge")
BOTH = [FERRY, BARGE]


def test_idf_is_over_the_pool_and_never_zero() -> None:
    idf = inverse_frequencies([Counter(["ferry", "ferry", "sails"]), Counter(["barge", "sails"])])
    assert idf == pytest.approx({"ferry": log(3), "barge": log(3), "sails": log(2)})
    assert inverse_frequencies([Counter(["ferry"])])["ferry"] == pytest.approx(log(2))


def test_keywords_are_the_words_of_highest_tf_idf() -> None:
    # ferry 2 ln 3; alma, carries, mail, holm ln 3 each, as they appear; sails, which both have, ln 2
    found, other = synopses("", BOTH, words, LIMITS)
    assert found.keywords == "ferry, alma, carries, mail, holm, sails"
    assert other.keywords == "barge, runa, old, sails"


def test_there_are_at_most_twelve_keywords() -> None:
    bag = Counter([f"w{n}" for n in range(20)])
    assert keywords(bag, inverse_frequencies([bag])) == [f"w{n}" for n in range(12)]


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("Where does the ferry carry its mail?", "The ferry carries mail to Holm."),
        ("Who is Alma?", "The ferry Alma sails."),
        ("Which ferry?", "The ferry Alma sails."),  # the first of equal ones
        ("Anything else?", "The ferry Alma sails."),
        # alma weighs ln 3; sails and carries are one of ln 2 and one of ln 3
        ("What sails and carries?", "The ferry carries mail to Holm."),
    ],
)
def test_the_excerpt_is_the_sentence_that_shares_most_with_the_question(question: str, sentence: str) -> None:
    assert synopses(question, BOTH, words, LIMITS)[0].excerpt == sentence


def test_an_excerpt_may_come_from_any_unit_and_is_one_line() -> None:
    units = (unit("The pier is old.", 1), unit("The lock\nopens at nine.", 2))
    record = Record("r", "doc", ("key",), "value", (1, 2))
    two = Candidate(info(), units, (record,), "key", 1.0)
    assert synopses("When does the lock open?", [two], words, LIMITS)[0].excerpt == "The lock opens at nine."


def test_a_synopsis_reads_neither_keys_nor_values() -> None:
    one = candidate("The pier is old.", values=("SECRET VALUE",), key="SECRET KEY")
    (synopsis,) = synopses("secret key value", [one], words, LIMITS)
    assert "SECRET" not in f"{synopsis}".upper()


def test_metadata_are_title_section_and_plain_values_on_one_line() -> None:
    described = candidate(
        "Text.",
        title="Harbour\nnotes",
        section=("Ferries", "Alma"),
        metadata={"date": "2024-05-03", "pages": 4, "tags": ["a"], "nothing": None},
    )
    assert metadata_line(described) == "Harbour notes; Ferries; Alma; date: 2024-05-03; pages: 4"
    assert metadata_line(candidate("Text.", "path/file.md")) == "path/file.md"
    assert metadata_line(candidate("Text.", title="Alma", section=("Alma",))) == "Alma"


def test_a_candidate_without_words_has_an_empty_synopsis() -> None:
    (synopsis,) = synopses("why", [candidate("")], words, LIMITS)
    assert (synopsis.metadata, synopsis.keywords, synopsis.excerpt) == ("doc", "", "")
    assert excerpt(candidate(" \n"), {"why"}, {}) == ""


def test_no_candidates_have_no_synopses() -> None:
    assert synopses("why", [], words, LIMITS) == ()


def test_limits_shrink_in_proportion() -> None:
    assert SynopsisLimits(40, 24, 64).scaled(0.25) == SynopsisLimits(10, 6, 16)


@given(st.lists(st.text(st.sampled_from("ab .\n<1é漢"), max_size=40), max_size=4), st.integers(0, 9))
def test_every_part_is_one_line_within_its_limit(texts: list[str], limit: int) -> None:
    found = [candidate(text, title=text) for text in texts]
    for synopsis in synopses("a b", found, len, SynopsisLimits(limit, limit, limit)):
        for part in (synopsis.metadata, synopsis.keywords, synopsis.excerpt):
            assert len(part) <= limit
            assert "\n" not in part

"""Numbers, dates and names are compared by what they say, not by how they are written."""

from __future__ import annotations

import pytest

from mrag.documents.facts import Facts, facts, supports, unsupported
from mrag.documents.scripts import unspoken


@pytest.mark.parametrize(
    ("quote", "claim", "holds"),
    [
        ("founded on 3 May 1961", "1961-05-03", True),
        ("founded on 3 May 1961", "May 1961", True),
        ("founded in May 1961", "1961-05-03", False),
        ("founded in 1961-05", "May, 1961", True),
        ("founded on 3 May 1961", "founded on 3 may 1961", True),
        ("founded on 3 May 1961", "founded in june 1961", False),
        ("costs 1,250.50 today", "1250.5", True),
        ("costs .5 today", "costs 5", False),
        ("costs 0.5 today", "costs .5", True),
        ("two hundred thousand men", "200,000", True),
        ("two hundred men", "two hundred thousand", False),
        ("the Corvane workshop's lens", "Corvane", True),
        ("model VP-09", "VP-08", False),
        ("model VP-09", "vp-09", True),
        ("a 12-inch lens", "12 inches", True),
        ("in the 1990s", "1990", False),
        ("in the 1990's", "1990", False),
        ("in 1990", "the 1990s", False),
        ("in 1990", "the 1990's", False),
        ("in the 1990s", "1990's", True),
        ("in the 1990's", "the 1990s", True),
        ("in the 1990s", "the 1980s", False),
        ("it took 60s", "60 seconds", True),
        ("５ men came", "5 men", True),
        ("ferries of the Alma class", "Alma-class ferries", True),
        ("ferries of the Alma class", "Runa-class ferries", False),
        ("the Antrell-Corvane workshop", "a workshop of Corvane", True),
        ("model VP-08, not 09", "VP-09", False),
        ("model VP\u201109", "VP-09", True),
        ("The vessel was built in 1962.", "IT US WILL", False),
        ("The vessel was built in 1962.", "THE VESSEL WAS BUILT", True),
        ("It may have been signed by us.", "May Will Have signed", False),
        ("It will be signed by us.", "The US signed it", False),
        ("It was signed by the US.", "The US signed it", True),
        ("It will be signed.", "It was signed by Will", False),
        ("The Alma was built in Gdansk.", "Alma Was Built in Gdansk", True),
        ("Seen in the Hague.", "Seen in The Hague", True),
    ],
)
def test_a_claim_may_have_another_notation(quote: str, claim: str, holds: bool) -> None:
    assert supports(quote, claim) == holds


def test_facts_tell_dates_numbers_and_names_apart() -> None:
    found = facts("On 3 May 1961 Lise Antrell sold 7 lenses of type VP-09.", frozenset({"on"}))
    assert found.dates == {(1961, 5, 3)}
    assert {int(number) for number in found.quantities} == {7, 1961}
    assert found.names == {"lise", "antrell", "vp-09"}


def test_what_is_not_supported_is_named() -> None:
    quote = "The Alma left Holm on 3 May 1961 with ninety men."
    claim = "On 4 May 1961 Runa left Holm with 90 men and 7 dogs."
    missing = unsupported(quote, claim, frozenset({"on"}))
    assert (missing.dates, missing.numbers, missing.names) == ({(1961, 5, 4)}, {7}, {"runa"})
    assert not unsupported(quote, "Holm, May 1961")
    assert not Facts(frozenset(), frozenset(), frozenset())


@pytest.mark.parametrize(
    ("quote", "claim", "missing"),
    [
        ("灯塔建于1962年，位于格但斯克。", "建于1962年", set()),
        ("灯塔建于\n1962年，位于格但斯克。", "位于格但斯克", set()),
        ("灯塔建于1962年，位于格但斯克。", "位于柏林", {"位于柏林"}),
        ("有五百万人", "有五百人", {"有五百人"}),
        ("بنيت العبارة في غدانسك", "العبارة في غدانسك", set()),
        ("بنيت العبارة في غدانسك", "بنيت العبارة في برلين", {"برلين"}),
        ("המעבורת נבנתה בגדנסק", "המעבורת נבנתה בברלין", {"בברלין"}),
        ("नौका बनी", "नौका बना", {"बना"}),
        ("配はアルマ", "ｱﾙﾏ", set()),
        ("The Alma was built.", "Ålma für señor", set()),
    ],
)
def test_in_scripts_without_capitals_every_word_must_stand_there(
    quote: str, claim: str, missing: set[str]
) -> None:
    assert unspoken(quote, claim) == missing

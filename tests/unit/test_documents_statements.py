"""A claim that turns its quote round: negations dropped or added, and sides that are swapped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.documents.statements import contradicts


@pytest.mark.parametrize(
    ("quote", "claim"),
    [
        (
            "The discount does not apply to spare parts or mooring sets.",
            "The discount applies to spare parts.",
        ),
        ("The moorings are designed and laid by us.", "The moorings are not designed by us."),
        ("Nobody was hurt, but we could not ship any buoys.", "We could ship buoys."),
        ("No fish were lost.", "Fish were lost."),
        ("Nobody was hurt.", "Many were hurt."),
        ("It wasn't built in Gdansk.", "It was built in Gdansk."),
        ("The plug must never be opened on the farm.", "The plug may be opened on the farm."),
        ("It no longer ships cells.", "It ships cells."),
        ("No one signs in place of the steward.", "A deputy signs in place of the steward."),
        ("The lamp was broken.", "The lamp was not broken."),
        ("The hull is sold without a lamp.", "The hull is sold with a lamp."),
        ("Alma carries mail; Runa carries no passengers.", "Runa carries passengers."),
        ("The old pier is open. The new pier is not open.", "The new pier is open."),
    ],
)
def test_a_negation_that_is_dropped_or_added_is_found(quote: str, claim: str) -> None:
    assert contradicts(quote, claim)
    assert not contradicts(quote, quote)
    assert not contradicts(claim, claim)


@pytest.mark.parametrize(
    ("quote", "claim"),
    [
        ("The discount does not apply to spare parts.", "Spare parts are excluded from the discount."),
        ("There is no discount on spare parts.", "The discount excludes spare parts."),
        ("It lacks a lamp.", "It has no lamp."),
        ("The plug must never be opened.", "Opening the plug is forbidden."),
        ("It has no more than 5 men.", "It has 5 men."),
        ("It ships not only cells but boards.", "It ships cells and boards."),
        ("If no settlement is reached within 60 days", "A settlement isn't reached within 60 days."),
        ("It covers the hull, but not damage by ice.", "It covers the hull."),
        ("The pier is open. The hall is not open.", "The pier is open."),
        ("No one enters before the pilot signs.", "The pilot signs before anyone enters."),
        ("The pilot signs before a ship enters.", "No ship enters before the pilot signs."),
        ("Nobody was hurt.", "There were no injuries."),
        ("", "It is not so."),
        ("It is so.", ""),
    ],
)
def test_what_says_the_same_in_other_words_is_not_judged(quote: str, claim: str) -> None:
    assert not contradicts(quote, claim)


@pytest.mark.parametrize(
    ("quote", "claim", "swapped"),
    [
        ("Kessova bought Pellibrand in 2004.", "Pellibrand bought Kessova in 2004.", True),
        ("Kessova bought Pellibrand in 2004.", "In 2004 Kessova bought Pellibrand.", False),
        ("Kessova bought Pellibrand in 2004.", "Pellibrand was bought by Kessova.", False),
        ("Kessova bought Pellibrand in 2004.", "Kessova was bought by Pellibrand.", True),
        ("Kessova was acquired by the Pellibrand works.", "Kessova acquired Pellibrand.", True),
        ("Kessova was acquired by Pellibrand.", "Pellibrand was acquired by Kessova.", True),
        ("Alma was built in Gdansk by Corvane.", "In Gdansk Corvane built Alma.", False),
        ("In Gdansk Corvane built Alma.", "Alma was built by Corvane in Gdansk.", False),
        ("Maren Dovekin of Orrenvik appointed Colm Verrity.", "Colm appointed Maren Dovekin.", True),
        ("Maren Dovekin of Orrenvik appointed Colm Verrity.", "Maren appointed Colm of Orrenvik.", False),
        ("Ada met Bela in Holm.", "Bela met Ada in Holm.", False),
        ("Ada married Bela.", "Bela married Ada.", False),
        ("Ada sold the mill to Bela.", "Bela sold the mill to Ada.", False),  # no rule tells it
        ("The Ada, founded by Bela", "Bela founded Ada.", False),
        ("Rurik Tamsin, engineer at Orrenvik", "Orrenvik engineer Rurik Tamsin", False),
    ],
)
def test_swapped_sides_of_a_deed_are_found(quote: str, claim: str, swapped: bool) -> None:
    assert contradicts(quote, claim) == swapped


WORDS = st.sampled_from(
    "the Alma Runa Holm bought built was not no never by in of without only fails 90 , . but".split()  # noqa: SIM905
)


@given(st.lists(WORDS, max_size=14).map(" ".join))
def test_a_text_never_contradicts_itself(text: str) -> None:
    assert not contradicts(text, text)

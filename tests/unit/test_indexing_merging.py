"""Near-identical records become one: nothing that differs in a fact, and no pointer too many."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.indexing.merging import merged
from mrag.indexing.records import Draft
from tests.marker_replies import build, document, record, reply

LONG = "The ferry Alma was built by the small workshop of Gdansk in 1962 and carries 90 passengers to Holm."


def values(*given_values: str, max_pointers: int = 3) -> list[str]:
    drafts = [Draft((f"key {at}",), value, (1,)) for at, value in enumerate(given_values)]
    return [draft.value for draft in merged(drafts, max_pointers)]


def test_keys_and_pointers_are_joined() -> None:
    drafts = [
        Draft(("a b",), "The value.", (4,)),
        Draft(("e f",), "Another one.", (1,)),
        Draft(("A B", "c d"), "the  value", (2, 4)),
    ]
    assert merged(drafts, 2) == (Draft(("a b", "c d"), "The value.", (2, 4)), drafts[1])
    assert merged(drafts, 1) == tuple(drafts)


def test_joined_keys_keep_their_order_with_the_best_first() -> None:
    some, other = Draft(("A", "B", "a"), "The value.", (1,)), Draft(("C", "A", "b"), "The value.", (1,))
    assert merged([some], 3)[0].keys == ("A", "B")
    assert merged([some, other], 3)[0].keys == ("A", "B", "C")


@pytest.mark.parametrize(
    "other",
    [
        LONG.upper(),
        LONG.replace("small ", ""),
    ],
)
def test_what_says_the_same_is_one(other: str) -> None:
    assert values(LONG, other) == [LONG]


@pytest.mark.parametrize(
    "other",
    [
        LONG.replace("90", "91"),
        LONG.replace("Gdansk", "x").replace("Holm", "Gdansk").replace("x", "Holm"),
        LONG.replace("1962", "1963"),
        LONG.replace("Holm", "Visby"),
        LONG.replace("carries", "never carries"),
        LONG.replace("small workshop", "large old yard"),
        LONG.replace(" and carries 90 passengers to Holm", ""),
    ],
)
def test_what_says_something_else_stays(other: str) -> None:
    assert values(LONG, other) == [LONG, other]


@pytest.mark.parametrize(
    ("said", "denied"),
    [
        ("is", "isn't"),
        ("is", "isn’t"),
        ("can", "cannot"),
        ("somebody", "nobody"),
        ("ever", "hardly"),
        ("is", "not"),
    ],
)
def test_a_word_that_denies_keeps_two_values_apart(said: str, denied: str) -> None:
    words = (
        "the red buoy in the outer harbour {} lit at night by order of one old keeper who lives on an island "
        "near by it"
    )
    assert len({*words.split()}) >= 19
    assert values(words.format(said), words.format(denied)) == [words.format(said), words.format(denied)]


WORDS = st.lists(st.sampled_from(["alma", "holm", "1962", "90", "not", "small", "ferry", "is"]), max_size=14)
DRAFTS = st.lists(st.tuples(WORDS, st.sets(st.integers(1, 4), min_size=1, max_size=3)), max_size=8)


@given(DRAFTS, st.integers(1, 4))
def test_whatever_is_merged_every_key_and_unit_is_kept(
    given_drafts: list[tuple[list[str], set[int]]], max_pointers: int
) -> None:
    drafts = [
        Draft((f"key {at}",), " ".join(words), tuple(sorted(pointers)))
        for at, (words, pointers) in enumerate(given_drafts)
    ]
    found = merged(drafts, max_pointers)
    assert sorted(key for draft in found for key in draft.keys) == sorted(draft.keys[0] for draft in drafts)
    places = {key: draft.pointers for draft in found for key in draft.keys}
    assert all(set(draft.pointers) <= set(places[draft.keys[0]]) for draft in drafts)
    assert all(len(draft.pointers) <= max(max_pointers, 3) for draft in found)
    for at, one in enumerate(found):
        for other in found[at + 1 :]:
            if one.value and one.value == other.value:
                assert len({*one.pointers, *other.pointers}) > max_pointers


async def test_a_sentence_that_a_document_repeats_is_one_record() -> None:
    repeated = "The harbour is closed on Sundays."
    built, _ = await build(
        document(repeated, "The ferry sails.", repeated),
        lambda request: reply(
            record(1, value=repeated, key="When is it closed?"),
            record(2, value="The ferry sails."),
            record(3, value=repeated, key="What is on Sundays?"),
        ),
        window_units=3,
    )
    assert [(r.keys, r.pointers) for r in built.records] == [
        (("When is it closed?", "What is on Sundays?"), (1, 3)),
        (("What is (2,)?",), (2,)),
    ]
    assert built.coverage.before_repair == 1.0

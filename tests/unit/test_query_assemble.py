"""Eq. 13: the longest run of ranked values within the budget, counted as it is assembled."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.query.assemble import Order, Piece, assemble, merged, raw_units, values
from mrag.query.fitting import cut_at_sentence, cut_at_word
from mrag.schema import Source
from tests.query_pool import candidate


def words(text: str) -> int:
    return len(text.split())


def costly(text: str) -> int:
    """A tokenizer that begins with a token of its own and charges for white space and for punctuation."""
    return 1 + sum(3 if c == "\n" else 1 for c in text if not c.isalnum() and c != " ") + words(text)


def piece(text: str, document: str = "a", *units: int) -> Piece:
    return Piece(text, Source(document, document.upper(), units or (1,)))


THREE = [piece("one two three.", "a", 3), piece("four five.", "b", 1), piece("six.", "a", 1)]


@pytest.mark.parametrize(
    ("budget", "text", "whole"),
    [
        (100, "one two three.\n\nfour five.\n\nsix.", True),
        (6, "one two three.\n\nfour five.\n\nsix.", True),
        (5, "one two three.\n\nfour five.", False),
        (4, "one two three.", False),  # eq. 13 ends here: the third value would fit, and is not taken
        (3, "one two three.", False),
    ],
)
def test_values_are_taken_while_they_fit(budget: int, text: str, whole: bool) -> None:
    context, everything = assemble(THREE, budget, words)
    assert (context.text, context.tokens, everything) == (text, words(text), whole)
    assert not context.cut


def test_separators_are_counted() -> None:
    both = costly("one two three.\n\nfour five.")
    assert both == 1 + 2 + 6 + 5
    assert assemble(THREE, both, costly)[0].text == "one two three.\n\nfour five."
    assert assemble(THREE, both - 1, costly)[0].text == "one two three."


def test_the_order_by_position_is_that_of_the_documents() -> None:
    by_position, _ = assemble(THREE, 100, words, "position")
    assert by_position.text == "six.\n\none two three.\n\nfour five."
    assert by_position.sources == (Source("a", "A", (1, 3)), Source("b", "B", (1,)))


def test_the_budget_is_spent_by_rank_in_either_order() -> None:
    assert assemble(THREE, 5, words, "position")[0].text == "one two three.\n\nfour five."


def test_a_first_value_beyond_the_budget_is_cut_at_a_sentence_and_marked() -> None:
    long = piece("It was built in 1962. It carries 90 passengers. It sails to Holm.", "a", 4)
    context, whole = assemble([long, piece("Short.")], 11, words)
    assert context.text == "It was built in 1962. It carries 90 passengers."
    assert (context.cut, whole, context.tokens) == (True, False, 9)
    assert context.sources == (Source("a", "A", (4,)),)


def test_where_no_sentence_fits_it_is_cut_at_a_word_and_where_no_word_does_it_is_empty() -> None:
    assert assemble([piece("It was built, of oak. Yes.")], 3, words)[0].text == "It was built"
    context, whole = assemble([piece("Unbelievable.")], 1, costly)
    assert (context.text, context.sources, context.cut, whole) == ("", (), True, False)


def test_no_values_make_an_empty_context() -> None:
    context, whole = assemble([], 5, words)
    assert (context.text, context.tokens, context.sources, whole) == ("", 0, (), True)


def test_keys_are_never_in_the_context_and_a_repeated_value_is_there_once() -> None:
    found = [
        candidate("unit one", "a", 1, values=("value one", "value two"), key="SECRET KEY"),
        candidate("unit two", "a", 2, values=("value two", "value three"), key="SECRET KEY"),
        candidate("unit three", "b", 1, values=("value one",), key="SECRET KEY"),
    ]
    context, _ = assemble(values(found), 100, words)
    assert context.text == "value one\n\nvalue two\n\nvalue three\n\nvalue one"
    assert [piece.source.units for piece in values(found)] == [(1,), (1,), (2,), (1,)]
    assert [piece.text for piece in raw_units(found)] == ["unit one", "unit two", "unit three"]


def test_a_unit_of_several_candidates_is_read_once() -> None:
    twice = [candidate("unit one", "a", 1), candidate("unit one", "a", 1), candidate("unit two", "a", 2)]
    assert [piece.text for piece in raw_units(twice)] == ["unit one", "unit two"]


def test_sources_merge_by_document_in_the_order_of_appearance() -> None:
    sources = [Source("b", "B", (4,), (9,)), Source("a", "A", (2,)), Source("b", "B", (1, 4), (7, 9))]
    assert merged(sources) == (Source("b", "B", (1, 4), (7, 9)), Source("a", "A", (2,)))


def test_a_source_names_the_pages_of_its_units() -> None:
    one, other = candidate("one", "a", 3, page=12), candidate("two", "a", 4, page=13)
    read = merged(piece.source for piece in (*values([one]), *raw_units([other])))
    assert read == (Source("a", "", (3, 4), (12, 13)),)
    assert read[0].place == "unit 3, 4, page 12, 13"
    assert Source("a", "", (3,)).place == "unit 3"


COUNTERS = st.sampled_from([words, costly, len])
TEXTS = st.text(st.sampled_from("ab1 .\n!é漢"), max_size=30)
PIECES = st.lists(
    st.builds(piece, TEXTS, st.sampled_from(["a", "b", "c"]), st.integers(1, 9)),
    max_size=6,
)
ORDERS: st.SearchStrategy[Order] = st.sampled_from(["similarity", "position"])


@given(PIECES, st.integers(1, 60), COUNTERS, ORDERS)
def test_the_budget_is_never_exceeded(
    pieces: list[Piece], budget: int, count: Callable[[str], int], order: Order
) -> None:
    context, whole = assemble(pieces, budget, count, order)
    assert context.tokens == count(context.text) <= budget
    if whole:
        assert not context.cut
        assert all(piece.text in context.text for piece in pieces)


@given(PIECES, st.integers(1, 60), st.integers(0, 20), COUNTERS)
def test_a_larger_budget_never_gives_less(
    pieces: list[Piece], budget: int, more: int, count: Callable[[str], int]
) -> None:
    smaller, larger = assemble(pieces, budget, count)[0], assemble(pieces, budget + more, count)[0]
    assert larger.text.startswith(smaller.text) or smaller.cut
    assert len(larger.text) >= len(smaller.text)


@given(PIECES, st.integers(1, 60), COUNTERS)
def test_both_orders_hold_whole_pieces(pieces: list[Piece], budget: int, count: Callable[[str], int]) -> None:
    for order in ("similarity", "position"):
        context, _ = assemble(pieces, budget, count, order)
        if context.cut:
            continue
        n = next(n for n in range(len(pieces), -1, -1) if _same_pieces(context.text, pieces[:n]))
        assert {s.document_id for s in context.sources} == {
            p.source.document_id for p in pieces[:n] if p.text
        }


def _same_pieces(text: str, pieces: list[Piece]) -> bool:
    return len(text) == sum(len(p.text) for p in pieces) + 2 * max(0, len(pieces) - 1) and all(
        p.text in text for p in pieces
    )


@given(TEXTS, st.integers(0, 20), COUNTERS)
def test_what_is_cut_is_a_beginning_that_fits(text: str, limit: int, count: Callable[[str], int]) -> None:
    for cut in (cut_at_word(text, limit, count), cut_at_sentence(text, limit, count)):
        assert text.startswith(cut)
        assert not cut or count(cut) <= limit

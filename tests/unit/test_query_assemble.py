"""Eq. 13: the longest run of ranked values within the budget, counted as it is assembled."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.query.assemble import Piece, Rules, assemble, merged, raw_units, values
from mrag.query.fitting import cut_at_sentence, cut_at_word
from mrag.schema import Source
from mrag.settings import PlainReader
from tests.query_pool import candidate, ranked


def words(text: str) -> int:
    return len(text.split())


def costly(text: str) -> int:
    """A tokenizer that begins with a token of its own and charges for white space and for punctuation."""
    return 1 + sum(3 if c == "\n" else 1 for c in text if not c.isalnum() and c != " ") + words(text)


def piece(text: str, document: str = "a", *units: int) -> Piece:
    return Piece(text, Source(document, document.upper(), units or (1,)))


POSITION = Rules("position")
SKIP = Rules(policy="skip")
STRICT = Rules(overflow="strict")
ONCE = Rules(deduplicate=True)
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
    by_position, _ = assemble(THREE, 100, words, POSITION)
    assert by_position.text == "six.\n\none two three.\n\nfour five."
    assert by_position.sources == (Source("a", "A", (1, 3)), Source("b", "B", (1,)))


def test_the_budget_is_spent_by_rank_in_either_order() -> None:
    assert assemble(THREE, 5, words, POSITION)[0].text == "one two three.\n\nfour five."


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


def test_what_does_not_fit_is_passed_over_where_that_is_the_policy() -> None:
    context, whole = assemble(THREE, 4, words, SKIP)
    assert (context.text, context.cut, whole) == ("one two three.\n\nsix.", False, False)
    assert assemble(THREE, 2, words, SKIP)[0].text == "four five."
    assert assemble(THREE, 1, words, SKIP)[0].text == "six."
    assert assemble(THREE, 100, words, SKIP) == assemble(THREE, 100, words)


def test_where_nothing_fits_skipping_cuts_the_first() -> None:
    context, whole = assemble([piece("one, two three."), piece("four five.")], 1, words, SKIP)
    assert (context.text, context.cut, whole) == ("one", True, False)


def test_strictly_a_first_value_beyond_the_budget_leaves_nothing() -> None:
    for rules in (STRICT, Rules(policy="skip", overflow="strict")):
        context, whole = assemble([piece("one two three.")], 2, words, rules)
        assert (context.text, context.tokens, context.sources) == ("", 0, ())
        assert (context.cut, whole) == (False, False)
    assert assemble(THREE, 4, words, STRICT) == assemble(THREE, 4, words)


FOUND = ranked(
    candidate("unit one", "a", 1, values=("value one", "value two"), key="SECRET KEY"),
    candidate("unit two", "a", 2, values=("value two", "value three"), key="SECRET KEY"),
    candidate("unit three", "b", 1, values=("value one",), key="SECRET KEY"),
)


def test_values_follow_the_ranks_and_keys_are_never_among_them() -> None:
    context, _ = assemble(values(FOUND), 100, words)
    assert context.text == "\n\n".join(["value one", *["value two"] * 2, "value three", "value one"])
    assert [piece.source.units for piece in values(FOUND)] == [(1,), (1,), (2,), (2,), (1,)]
    assert [piece.text for piece in raw_units(FOUND)] == ["unit one", "unit two", "unit three"]


def test_the_scan_is_over_single_records_though_candidates_hold_several() -> None:
    first, second, third = FOUND
    mixed = [replace(first, ranks=(1, 5)), replace(second, ranks=(2, 4)), replace(third, ranks=(3,))]
    said = ["value one", "value two", "value one", "value three", "value two"]
    assert [piece.text for piece in values(mixed)] == said


def test_the_scan_ends_at_a_record_that_is_not_in_the_pool() -> None:
    first, second, _ = FOUND
    full = [replace(first, ranks=(1, 4)), replace(second, ranks=(2, 5))]
    assert [piece.text for piece in values(full)] == ["value one", "value two"]


def test_chunks_of_one_long_unit_are_put_back_in_its_order() -> None:
    text = "Ada built the first ferry in Gdansk. It sank. Then she built the second one in Visby."
    late, early = (Piece(part, Source("a", "A", (5,)), (text,)) for part in (text[37:], text[:36]))
    both = Piece(f"{text[60:]} And so on.", Source("a", "A", (5, 6)), (text, "And so on."))
    ordered, _ = assemble([both, late, early], 100, words, POSITION)
    assert ordered.text == "\n\n".join(piece.text for piece in (early, late, both))


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        (
            "Ada built it in Gdansk long ago",
            "in Gdansk long ago it sailed",
            "Ada built it in Gdansk long ago\n\nit sailed",
        ),
        (
            "in Gdansk long ago it sailed",
            "Ada built it in Gdansk long ago",
            "in Gdansk long ago it sailed\n\nAda built it",
        ),
        (
            "Ada built it at home",
            "it at home she sold",
            "Ada built it at home\n\nit at home she sold",
        ),  # three words
    ],
)
def test_words_that_two_values_share_at_their_ends_are_paid_once(first: str, second: str, text: str) -> None:
    pieces = [piece(first, "a", 1), piece(second, "a", 2)]
    assert assemble(pieces, 100, words, ONCE)[0].text == text
    assert assemble(pieces, words(text), words, ONCE)[1]
    for rules, other in ((ONCE, piece(second, "b", 2)), (Rules(), pieces[1])):
        assert assemble([pieces[0], other], 100, words, rules)[0].text == f"{first}\n\n{second}"


def test_words_are_left_out_only_where_the_piece_before_says_them() -> None:
    built = piece("Ada built it. The ferry sails to Holm.", "a", 1)
    mail = piece("The ferry sails to Holm. It carries mail.", "a", 2)
    barge = piece("The barge Runa is old.", "b", 1)
    apart, _ = assemble([built, barge, mail], 100, words, ONCE)
    assert apart.text == "\n\n".join(one.text for one in (built, barge, mail))
    placed, _ = assemble([built, barge, mail], 100, words, Rules("position", deduplicate=True))
    assert placed.text == f"{built.text}\n\nIt carries mail.\n\n{barge.text}"
    between, _ = assemble([built, piece("It is of oak.", "a", 3), mail], 100, words, ONCE)
    assert between.text.endswith(mail.text)


def test_what_a_later_piece_comes_between_is_whole_again() -> None:
    first, last = (
        piece("Ada built it in Gdansk long ago", "a", 1),
        piece("in Gdansk long ago it sailed", "a", 3),
    )
    rules = Rules("position", deduplicate=True)
    assert assemble([first, last], 100, words, rules)[0].text == f"{first.text}\n\nit sailed"
    context, _ = assemble([first, last, piece("It sank.", "a", 2)], 100, words, rules)
    assert context.text == f"{first.text}\n\nIt sank.\n\n{last.text}"
    swapped, _ = assemble([last, replace(first, source=Source("a", "A", (4,)))], 100, words, rules)
    assert swapped.text == f"{last.text}\n\n{first.text}"  # they do not meet where they say the same


def test_a_repeated_value_of_a_document_is_paid_once() -> None:
    context, whole = assemble(values(FOUND), 100, words, ONCE)
    assert context.text == "value one\n\nvalue two\n\nvalue three\n\nvalue one"
    assert whole
    assert assemble(values(FOUND), 8, words, ONCE)[1]  # what is left out does not end the scan


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        ("Ada built it in 1962. It sails.", "Ada built it in 1962.", False),
        ("Ada built\n it in 1962.", "Ada  built it", False),
        ("Ada built it in 1962.", "Ada built it in 1962. It sails.", True),  # the longer one says more
        ("Norway is far.", "No", True),  # words, not letters
        ("Ada built it.", "It was Ada who built it.", True),
    ],
)
def test_a_value_that_stands_in_another_is_left_out(first: str, second: str, kept: bool) -> None:
    pieces = [piece(first, "a", 1), piece(second, "a", 2)]
    assert assemble(pieces, 100, words, ONCE)[0].text == (f"{first}\n\n{second}" if kept else first)
    other = [piece(first, "a", 1), piece(second, "b", 1)]
    assert assemble(other, 100, words, ONCE)[0].text == f"{first}\n\n{second}"


def test_a_value_of_units_that_are_read_in_full_is_left_out() -> None:
    whole = Piece("Ada built it. It sails.", Source("a", "A", (1, 2)), ("Ada built it.", "It sails."))
    rewritten = Piece("The builder is Ada.", Source("a", "A", (1,)), ("Ada built it.",))
    more = Piece("Ada built what sank.", Source("a", "A", (1, 3)), ("Ada built it.", "It sank."))
    elsewhere = replace(rewritten, source=Source("a", "A", (4,)))
    assert assemble([whole, rewritten], 100, words, ONCE)[0].text == whole.text
    assert assemble([rewritten, whole], 100, words, ONCE)[0].text == f"{rewritten.text}\n\n{whole.text}"
    for kept in (more, elsewhere):
        assert assemble([whole, kept], 100, words, ONCE)[0].text == f"{whole.text}\n\n{kept.text}"


def test_two_facts_of_one_unit_are_both_read() -> None:
    found = candidate("Ada built it in 1962.", values=("Ada built it.", "It is of 1962."))
    assert assemble(values([found]), 100, words, ONCE)[0].text == "Ada built it.\n\nIt is of 1962."


def test_a_value_that_was_passed_over_says_nothing() -> None:
    pieces = [piece("one two three four."), piece("three four.")]
    assert assemble(pieces, 2, words, Rules(policy="skip", deduplicate=True))[0].text == "three four."


def test_the_rules_are_the_readers() -> None:
    reader = PlainReader(order="position", policy="skip", overflow="strict", deduplicate=False)
    assert Rules.of(reader) == Rules("position", "skip", "strict", False)
    assert Rules.of(PlainReader()) == ONCE
    assert Rules() == Rules.of(PlainReader(deduplicate=False))


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
RULES = st.builds(
    Rules,
    st.sampled_from(["similarity", "position"]),
    st.sampled_from(["stop", "skip"]),
    st.sampled_from(["cut", "strict"]),
    st.booleans(),
)


@given(PIECES, st.integers(1, 60), COUNTERS, RULES)
def test_the_budget_is_never_exceeded(
    pieces: list[Piece], budget: int, count: Callable[[str], int], rules: Rules
) -> None:
    context, whole = assemble(pieces, budget, count, rules)
    assert context.tokens == count(context.text) <= budget
    if whole:
        assert not context.cut
        squeezed = " ".join(context.text.split())
        for one in pieces:  # what is paid once may be told in parts
            said = one.text.split() if rules.deduplicate else [" ".join(one.text.split())]
            assert all(part in squeezed for part in said)


@pytest.mark.parametrize("budget", [128 * times for times in range(1, 6)])
@pytest.mark.parametrize("order", ["similarity", "position"])
@pytest.mark.parametrize("policy", ["stop", "skip"])
def test_the_papers_budgets_are_spent_and_kept(budget: int, order: Any, policy: Any) -> None:
    chance = random.Random(budget)
    pieces = [
        piece(
            f"{' '.join(chance.choices(['pier', 'ferry,', 'of', 'Holm.'], k=chance.randint(30, 70)))}", "a", n
        )
        for n in range(1, 40)
    ]
    context, whole = assemble(pieces, budget, costly, Rules(order, policy))
    assert budget - 110 < context.tokens == costly(context.text) <= budget
    assert not whole


@given(PIECES, st.integers(1, 60), st.integers(0, 20), COUNTERS, RULES)
def test_stopping_a_larger_budget_never_gives_less(
    pieces: list[Piece], budget: int, more: int, count: Callable[[str], int], rules: Rules
) -> None:
    rules = replace(rules, policy="stop")
    smaller, larger = (assemble(pieces, limit, count, rules)[0] for limit in (budget, budget + more))
    assert len(larger.text) >= len(smaller.text)
    if rules.order == "similarity" and not smaller.cut:
        assert larger.text.startswith(smaller.text)
    assert {source.document_id for source in larger.sources} >= {s.document_id for s in smaller.sources}


@given(PIECES, st.integers(1, 60), COUNTERS)
def test_both_orders_hold_whole_pieces(pieces: list[Piece], budget: int, count: Callable[[str], int]) -> None:
    for rules in (Rules(), POSITION):
        context, _ = assemble(pieces, budget, count, rules)
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

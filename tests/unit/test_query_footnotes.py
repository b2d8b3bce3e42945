"""Footnotes: what an answer rests on, as text, and back again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.query.footnotes import Footnoted, footnoted, without_footnotes
from mrag.query.outcome import abstained, fell_back
from mrag.schema import Answer, Context, Derivation, EvidenceRow, EvidenceTable, Source, Verdict

ALMA, RUNA = Source("alma", "Ferries", (1,)), Source("runa.pdf", "", (2, 3), (7,))
ROWS = (
    EvidenceRow({"fact": "1962"}, "Built in 1962.", Verdict.VERIFIED, ALMA),
    EvidenceRow({"fact": "1901"}, "Built in 1901.", Verdict.VERIFIED, RUNA),
    EvidenceRow({"fact": "1800"}, "?", Verdict.UNVERIFIED),
    EvidenceRow({"derived": "61"}, "", Verdict.DERIVED, derivation=Derivation("difference", (1, 2))),
)


def answer(text: str = "Alma.", **values: Any) -> Answer:
    table = EvidenceTable("ATOMIC", ("fact",), ROWS)
    return Answer("Who?", text, (ALMA, RUNA), table, None, 1, (), ("A note.",), **values)


def test_cited_rows_become_footnotes_with_their_quotes() -> None:
    found = footnoted(answer(citations=(2, 1)))
    assert found.content == (
        "Alma. [1] [2]\n\n"
        "- [1] runa.pdf (unit 2, 3, page 7): “Built in 1901.”\n"
        "- [2] Ferries (unit 1): “Built in 1962.”"
    )
    assert [found.content[note.start : note.end] for note in found.notes] == ["[1]", "[2]"]
    assert [note.title for note in found.notes] == ["runa.pdf", "Ferries"]


def test_a_computed_row_stands_for_those_it_was_computed_from() -> None:
    found = footnoted(answer(citations=(4, 1)))
    assert [note.source for note in found.notes] == [ALMA, RUNA]


def test_without_citations_the_sources_are_named() -> None:
    assert (
        footnoted(answer()).content
        == "Alma. [1] [2]\n\n- [1] Ferries (unit 1)\n- [2] runa.pdf (unit 2, 3, page 7)"
    )


@pytest.mark.parametrize(
    ("text", "content"), [("", "A note."), ("unknown", "unknown"), ("Unknown.", "Unknown.")]
)
def test_no_answer_has_no_footnotes(text: str, content: str) -> None:
    assert abstained(answer(text))
    assert footnoted(answer(text, citations=(1,))) == Footnoted(content, ())


def test_a_quote_makes_no_link_and_no_picture() -> None:
    row = EvidenceRow(
        {}, "see ![x](http://evil) <img src=y>\n[z]", Verdict.VERIFIED, Source("d", "a [b](c)", (1,))
    )
    table = EvidenceTable("ATOMIC", (), (row,))
    content = footnoted(Answer("?", "Yes.", (), table, None, 1, (), citations=(1,))).content
    assert content.endswith("- [1] a \\[b\\](c) (unit 1): “see !\\[x\\](http://evil) < img src=y> \\[z\\]”")


titles = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=40)


@given(st.lists(titles, min_size=1, max_size=4, unique=True))
def test_titles_come_back_as_they_were_shown(names: list[str]) -> None:
    sources = tuple(Source(f"d{n}", name, (n,)) for n, name in enumerate(names, start=1))
    found = footnoted(Answer("?", "Yes, so it is.", sources, None, None, 1, ()))
    text, back = without_footnotes(found.content)
    assert text == "Yes, so it is."
    assert len(back) <= len(names)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Yes.",
        "Yes [1]",
        "A list:\n\n- [1] apples\n- pears",
        "- [1] A (unit 1)",
        "Yes [1]\n\n- [1] A (unit 1)\nMore.",
    ],
)
def test_a_text_of_others_is_left_alone(text: str) -> None:
    assert without_footnotes(text) == (text, ())


def test_raw_units_in_place_of_evidence_are_a_fallback() -> None:
    context = Context("text", 1, (ALMA,))
    for selected, read, fell in (((ALMA,), context, True), ((ALMA,), None, False), ((), context, False)):
        assert fell_back(Answer("?", "Yes.", (), None, read, 1, (), selected=selected)) is fell


def test_a_long_line_that_is_almost_a_footnote_costs_no_time() -> None:
    content = "a\n\n- [1] x" + " (): “”" * 20_000 + "x"
    assert without_footnotes(content) == (content, ())

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from mrag.documents.markdown import find_headings
from mrag.documents.units import split_units
from mrag.schema import Document, SourceUnit


class WordTokenizer:
    """A word is a token, punctuation too; like WordPiece it counts any word as one."""

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]

    def count(self, text: str) -> int:
        return len(self.spans(text))


def units(text: str, limit: int = 1000) -> tuple[SourceUnit, ...]:
    return split_units(Document("d", text, headings=find_headings(text)), WordTokenizer(), limit)


def texts(text: str, limit: int = 1000) -> list[str]:
    return [unit.text for unit in units(text, limit)]


def test_paragraphs_are_between_blank_lines() -> None:
    assert texts("\n\n  One\nstill one.  \n \t\nTwo.\x0c\n\x0c\nThree.") == [
        "One\nstill one.",
        "Two.",
        "Three.",
    ]
    assert units("") == units(" \n\n ") == ()


def test_a_fence_a_list_and_a_table_are_whole() -> None:
    fence = "```python\na = 1\n\n\nb = 2\n````"
    listed = "- one\n- two\n  more"
    table = "| a | b |\n|---|---|\n| 1 | 2 |"
    assert texts(f"Text\n\n{fence}\n\n{listed}\n\n{table}\n\nEnd") == ["Text", fence, listed, table, "End"]
    assert texts("> ~~~\n> x\n\n> ~~~") == ["> ~~~\n> x\n\n> ~~~"]


def test_a_fence_that_is_never_closed_swallows_nothing() -> None:
    assert texts("```\na\n\nb\n\n~~~ x\n\nc\n\n```x") == ["```\na", "b", "~~~ x", "c", "```x"]
    assert texts("````\na\n\n```\n\nb\n\n```") == ["````\na", "```\n\nb\n\n```"]


def test_headings_are_the_section_of_what_is_below() -> None:
    found = units("Before\n\n# A\n## B\none\n\ntwo\n### C\nthree\n## D\nfour\n# E\nfive")
    assert [(unit.text, unit.section) for unit in found] == [
        ("Before", ()),
        ("one", ("A", "B")),
        ("two", ("A", "B")),
        ("three", ("A", "B", "C")),
        ("four", ("A", "D")),
        ("five", ("E",)),
    ]
    assert [unit.number for unit in found] == [1, 2, 3, 4, 5, 6]


def test_a_heading_with_nothing_below_is_a_unit() -> None:
    found = units("# A\n## Empty\n## Full\ntext\n# Last\n## Very last")
    assert [(unit.text, unit.section) for unit in found] == [
        ("## Empty", ("A",)),
        ("text", ("A", "Full")),
        ("## Very last", ("Last",)),
    ]


def test_a_unit_knows_the_page_on_which_it_begins() -> None:
    text = "One.\n\nTwo.\n\nThree."
    pages = Document("d", text, pages=(0, 4, 4, 10))  # the second page is empty
    assert [(unit.text, unit.page) for unit in split_units(pages, WordTokenizer(), 9)] == [
        ("One.", 1),
        ("Two.", 3),
        ("Three.", 4),
    ]
    assert units(text)[0].page is None


def test_a_long_paragraph_is_split_at_sentences() -> None:
    assert texts("One two three. Four five. Six seven eight nine. Ten.", 8) == [
        "One two three. Four five.",
        "Six seven eight nine. Ten.",
    ]


def test_a_long_sentence_is_split_at_white_space_and_a_long_word_hard() -> None:
    assert texts("a b c d e f g. H.", 4) == ["a b c d", "e f g.", "H."]
    assert texts("x" * 100, 4) == ["x" * 64, "x" * 36]
    pieces = texts("word " + "." * 10 + " end", 4)
    assert "".join(pieces) == "word" + "." * 10 + "end"
    assert all(WordTokenizer().count(piece) <= 4 for piece in pieces)


BITS = st.sampled_from(
    [
        "word",
        " ",
        "\n",
        "\n\n",
        ". ",
        "# ",
        "## h\n",
        "```\n",
        "~~~",
        "- ",
        "====\n",
        "|",
        "日本。",
        "\u2028",
        "é",
        "\x0c",
    ]
)


@settings(max_examples=300)
@given(st.lists(BITS | st.text(max_size=3), max_size=60).map("".join), st.integers(1, 12))
def test_offsets_order_limit_and_completeness(text: str, limit: int) -> None:
    text = text.replace("\r", "\n").replace("\x00", "\ufffd")
    document = Document("d", text, headings=find_headings(text))
    found = split_units(document, WordTokenizer(), limit)
    places = [(unit.start, unit.end) for unit in found]
    for number, unit in enumerate(found, start=1):
        assert unit.number == number
        assert text[unit.start : unit.end] == unit.text == unit.text.strip() != ""
        assert WordTokenizer().count(unit.text) <= limit
    assert all(end <= start for (_, end), (start, _) in pairwise(places))
    rest = list(text)
    for start, end in [*places, *((heading.start, heading.end) for heading in document.headings)]:
        rest[start:end] = " " * (end - start)
    assert not "".join(rest).strip()


# --------------------------------------------------------------------------- token-based segments


def segments(text: str, limit: int) -> tuple[SourceUnit, ...]:
    document = Document("d", text, headings=find_headings(text))
    return split_units(document, WordTokenizer(), limit, "tokens")


def test_segments_run_over_the_ends_of_paragraphs_and_stay_under_their_heading() -> None:
    found = segments("one two\n\nthree four five\n\n# A\n\nsix. Seven\n\n# B\n# C\n\neight", 4)
    assert [(unit.text, unit.section) for unit in found] == [
        ("one two\n\nthree four", ()),
        ("five", ()),
        ("six. Seven", ("A",)),
        ("# B", ()),
        ("eight", ("C",)),
    ]


@given(st.text(alphabet="ab .\n#`"), st.integers(1, 9))
def test_segments_are_full_and_leave_nothing_out(text: str, limit: int) -> None:
    found = segments(text, limit)
    tokenizer = WordTokenizer()
    assert all(tokenizer.count(unit.text) <= limit for unit in found)
    covered = {at for unit in found for at in range(unit.start, unit.end)}
    covered |= {at for heading in find_headings(text) for at in range(heading.start, heading.end)}
    assert {at for at, character in enumerate(text) if not character.isspace()} <= covered
    for unit, following in pairwise(segments(text.translate(str.maketrans("", "", ".#`")), limit)):
        first = following.text.split()[0]
        assert tokenizer.count(unit.text) + tokenizer.count(first) > limit

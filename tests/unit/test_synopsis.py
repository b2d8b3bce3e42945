"""Synopses (SANE eqs. 4 to 7), computed by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.errors import InputError
from mrag.models.language_model import Message
from mrag.models.scripted import ScriptedModel
from mrag.query.describe import describe, parts_shown
from mrag.query.synopsis import (
    Synopsis,
    excerpt,
    inverse_frequencies,
    keywords,
    metadata_line,
    synopses,
)
from mrag.schema import Candidate, Record
from mrag.settings import SynopsisSettings
from tests.query_pool import candidate, info, unit

LIMITS = SynopsisSettings()


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


def limits(metadata: int = 0, keywords: int = 0, excerpt: int = 0, full_text: int = 0) -> SynopsisSettings:
    return SynopsisSettings(
        metadata_tokens=metadata,
        keywords_tokens=keywords,
        excerpt_tokens=excerpt,
        full_text_tokens=full_text,
    )


MAIL = "Where does the ferry carry its mail?"
ALL = Synopsis("Ferries", "ferry, alma, carries, mail, holm, sails", "The ferry carries mail to Holm.")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (LIMITS, ALL),
        (limits(metadata=40), Synopsis(metadata=ALL.metadata)),
        (limits(keywords=24), Synopsis(keywords=ALL.keywords)),
        (limits(excerpt=64), Synopsis(excerpt=ALL.excerpt)),
        (limits(excerpt=3, keywords=2), Synopsis(keywords="ferry, alma", excerpt="The ferry carries")),
        (limits(full_text=40), Synopsis(text=FERRY.text)),
        (limits(40, 24, 64, full_text=2), Synopsis(text="The ferry")),
    ],
)
def test_a_part_without_tokens_is_left_out_and_the_text_is_in_place_of_all(
    settings: SynopsisSettings, expected: Synopsis
) -> None:
    assert synopses(MAIL, BOTH, words, settings)[0] == expected


def test_limits_shrink_in_proportion() -> None:
    (found, _) = synopses(MAIL, BOTH, words, limits(8, 8, 8), share=0.25)
    assert found == Synopsis("Ferries", "ferry, alma", "The ferry")


def test_parts_stand_on_lines_of_their_own_and_only_the_first_at_the_margin() -> None:
    assert ALL.shown == f"Ferries\n  keywords: {ALL.keywords}\n  excerpt: {ALL.excerpt}"
    assert Synopsis(excerpt="It is old.").shown == "excerpt: It is old."
    assert Synopsis().shown == ""


# --------------------------------------------------------------------------- what a prompt shows


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (LIMITS, "its metadata, its keywords and an excerpt"),
        (limits(metadata=1, excerpt=1), "its metadata and an excerpt"),
        (limits(keywords=1), "its keywords"),
        (limits(1, 1, 1, full_text=1), "its text"),
    ],
)
def test_a_prompt_says_what_it_shows(settings: SynopsisSettings, named: str) -> None:
    assert parts_shown(settings) == named


LONG = [candidate(" ".join(f"w{n}" for n in range(100)), f"d{i}") for i in range(8)]


def together(texts: Sequence[str]) -> list[tuple[Message, ...]]:
    return [(Message("user", "\n".join(texts)),)]


def apart(texts: Sequence[str]) -> list[tuple[Message, ...]]:
    return [(Message("user", text),) for text in texts]


@pytest.mark.parametrize(
    ("most", "texts", "tokens", "note"),
    [
        (800, 8, 100, None),
        (799, 8, 50, "Synopses were shortened to 50% to fit the model's window."),
        (100, 8, 12, "Synopses were shortened to 12% to fit the model's window."),
        (
            95,
            6,
            12,
            "Only the first 6 candidates fit the model's window.",
        ),  # a quarter less: 8, 6, 5, 4, 3, 2, 1
        (12, 1, 12, "Only the first 1 candidates fit the model's window."),
    ],
)
def test_what_does_not_fit_is_shortened_and_then_left_out(
    most: int, texts: int, tokens: int, note: str | None
) -> None:
    model = ScriptedModel([], window_tokens=most + 9)
    found = describe(model, "why", LONG, limits(full_text=100), together, reply_tokens=9)
    (prompt,) = found.prompts
    assert list(map(words, prompt[0].content.split("\n"))) == [tokens] * texts
    assert (found.shown, found.notes) == (texts, (note,) if note else ())


def test_the_longest_of_several_prompts_decides() -> None:
    short = [candidate("w1 w2", "d8")]
    model = ScriptedModel([], window_tokens=50)
    found = describe(model, "why", LONG + short, limits(full_text=100), apart, reply_tokens=0)
    assert [words(prompt[0].content) for prompt in found.prompts] == [50] * 8 + [2]
    assert found.notes == ("Synopses were shortened to 50% to fit the model's window.",)


def test_where_nothing_fits_the_question_is_too_long() -> None:
    with pytest.raises(InputError, match="too long") as error:
        describe(ScriptedModel([], window_tokens=5), "why", LONG, LIMITS, together, reply_tokens=5)
    assert error.value.field == "question"


@given(st.lists(st.text(st.sampled_from("ab .\n<1é漢"), max_size=40), max_size=4), st.integers(1, 9))
def test_every_part_is_one_line_within_its_limit(texts: list[str], limit: int) -> None:
    found = [candidate(text, title=text) for text in texts]
    for synopsis in synopses("a b", found, len, limits(limit, limit, limit)):
        for part in (synopsis.metadata, synopsis.keywords, synopsis.excerpt):
            assert len(part) <= limit
            assert "\n" not in part

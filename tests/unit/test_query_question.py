"""A question from what a caller sent: cleaned, checked, and refused by the name of what is wrong."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.errors import InputError
from mrag.query.question import Question, checked_question, clean, question_for
from mrag.schema import Condition
from mrag.settings import PlainReader, RetrievalSettings, SaneReader, Settings, parse_settings

SETTINGS = parse_settings(
    {
        "collection": {"name": "harbour"},
        "method": {"reader": {"name": "sane", "w": 7, "k": 3}, "retrieval": {"legs": ["sparse"]}},
    }
)


def refused(**options: Any) -> InputError:
    with pytest.raises(InputError) as raised:
        checked_question(**{"text": "Which ferry?", "collection": "harbour", **options})
    sentence = str(raised.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return raised.value


# --------------------------------------------------------------------------- the text


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\t\r\n \u2028\xa0",
        "?",
        "... !",
        "\x00\x07\x1b",
        "\ud800\udfff",
        "\ufeff",
        "\u200b",
        "\x00 \ud83d ?",
    ],
)
def test_a_question_without_a_word_is_empty(text: str) -> None:
    error = refused(text=text)
    assert (error.field, "empty" in str(error)) == ("question", True)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("  Which ferry?\r\n", "Which ferry?"),
        ("\ufeffWhich ferry?", "Which ferry?"),
        ("Which\x00 fer\x1b\x7f\x85ry?", "Which ferry?"),
        ("Which\tferry\nis it?", "Which\tferry\nis it?"),
        ("Which \ud83d ferry \udc00?", "Which  ferry ?"),
        ("Wer? 渡船 🚢 ﬁ é", "Wer? 渡船 🚢 ﬁ é"),
        ("7", "7"),
        ("漢", "漢"),
    ],
)
def test_what_no_model_can_read_is_taken_out(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned
    assert checked_question(text, "harbour").text == cleaned


@given(st.text(st.characters() | st.sampled_from("\x00\n\t\ud800\udfff\ufeff \x85"), max_size=40))
def test_a_cleaned_question_is_clean(text: str) -> None:
    if not any(c.isalnum() for c in text):
        assert refused(text=text).field == "question"
        return
    cleaned = clean(text)
    cleaned.encode("utf-8")
    assert clean(cleaned) == cleaned
    assert not any(unicodedata.category(c) == "Cc" for c in cleaned if c not in "\t\r\n")
    assert [c for c in text if c.isalnum()] == [c for c in cleaned if c.isalnum()]


# --------------------------------------------------------------------------- options


def test_without_options_the_defaults_hold() -> None:
    assert checked_question("Which ferry?", "harbour") == Question(
        "Which ferry?", "harbour", RetrievalSettings(), SaneReader(), None
    )


def test_options_are_read_like_the_settings() -> None:
    question = checked_question(
        "Which ferry?",
        "harbour",
        {"name": "keys", "legs": ["dense"], "depth": 2},
        {"name": "plain", "budget_tokens": 9, "order": "position"},
        1.5,
    )
    assert question.retrieval == RetrievalSettings(legs=("dense",), depth=2)
    assert question.reader == PlainReader(budget_tokens=9, order="position")
    assert question.timeout_s == 1.5
    assert checked_question("Which ferry?", "harbour", question.retrieval, question.reader, 1.5) == question


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"collection": ""}, "collection"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": -1.0}, "timeout_s"),
        ({"timeout_s": float("nan")}, "timeout_s"),
        ({"reader": {"name": "plain", "budget_tokens": 0}}, "budget_tokens"),
        ({"reader": {"name": "sane", "budget_tokens": 0}}, "budget_tokens"),
        ({"reader": {"name": "plain", "budget_tokens": "many"}}, "budget_tokens"),
        ({"reader": {"name": "plain", "k": 0}}, "k"),
        ({"reader": {"name": "plain", "w": 5}}, "w"),
        ({"reader": {"name": "plain", "order": "random"}}, "order"),
        ({"reader": {"name": "sane", "w": 0}}, "w"),
        ({"reader": {"name": "sane", "k": 0}}, "k"),
        ({"reader": {"name": "sane", "w": 4, "k": 5}}, "k"),
        ({"reader": SaneReader(w=9, k=5).model_copy(update={"k": 10})}, "k"),
        ({"reader": {"name": "magic"}}, "reader"),
        ({"reader": {"k": 2}}, "reader"),
        ({"reader": {"name": "sane", "surprise": 1}}, "surprise"),
        ({"retrieval": {"name": "magic"}}, "retrieval"),
        ({"retrieval": {"legs": []}}, "legs"),
        ({"retrieval": {"legs": ["sideways"]}}, "legs"),
        ({"retrieval": {"depth": 0}}, "depth"),
        ({"retrieval": {"fusion": "sum"}}, "fusion"),
        ({"retrieval": {"leg_weights": {"dense": 0}}}, "leg_weights"),
        ({"retrieval": {"sub_queries": "model"}}, "sub_queries"),
        ({"reader": {"name": "plain", "policy": "go"}}, "policy"),
        ({"reader": {"name": "plain", "overflow": "more"}}, "overflow"),
        ({"reader": {"name": "plain", "deduplicate": "perhaps"}}, "deduplicate"),
        ({"filter_": {"year": {"near": 1962}}}, "filter"),
        ({"filter_": ["year=1962"]}, "filter"),
        ({"retrieval": {"surprise": 1}}, "surprise"),
    ],
)
def test_a_bad_option_is_named(options: dict[str, Any], field: str) -> None:
    assert refused(**options).field == field


def test_a_filter_is_read_as_json_or_taken_as_it_is() -> None:
    question = checked_question("Which ferry?", "harbour", filter_={"year": {"gte": 1962}})
    assert question.filter == (Condition("year", (("gte", (1962,)),)),)
    assert checked_question("Which ferry?", "harbour", filter_=question.filter) == question
    assert question_for(SETTINGS, "Which?", filter={"year": {"gte": 1962}}).filter == question.filter
    assert question_for(SETTINGS, "Which?", filter=None).filter == ()


def test_as_many_as_the_pool_may_be_selected() -> None:
    assert checked_question("Which ferry?", "harbour", reader={"name": "sane", "w": 4, "k": 4}).reader == (
        SaneReader(w=4, k=4)
    )


# --------------------------------------------------------------------------- over the settings


def test_settings_ask_as_they_are_set() -> None:
    question = question_for(SETTINGS, "Which ferry?")
    assert question == Question(
        "Which ferry?",
        "harbour",
        RetrievalSettings(name="keys+units", legs=("sparse",)),
        SaneReader(w=7, k=3),
        None,
    )


def test_options_lie_over_the_settings_and_none_is_not_given() -> None:
    question = question_for(
        SETTINGS, "Which?", collection="city", timeout_s=2.0, k=2, w=None, retrieval="keys"
    )
    assert (question.collection, question.timeout_s) == ("city", 2.0)
    assert question.reader == SaneReader(w=7, k=2)
    assert question.retrieval == RetrievalSettings(legs=("sparse",))


def test_another_reader_begins_with_its_own_defaults() -> None:
    assert question_for(SETTINGS, "Which?", reader="plain").reader == PlainReader()
    assert question_for(SETTINGS, "Which?", reader="plain", budget_tokens=9).reader == PlainReader(
        budget_tokens=9
    )
    assert question_for(SETTINGS, "Which?", reader="sane", k=1).reader == SaneReader(w=7, k=1)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"k": 8}, "k"),  # more than the w of the settings
        ({"w": 2}, "k"),  # fewer than the k of the settings
        ({"k": 0}, "k"),
        ({"budget_tokens": 0}, "budget_tokens"),
        ({"reader": "plain", "w": 3}, "w"),
        ({"reader": "magic"}, "reader"),
        ({"retrieval": "magic"}, "retrieval"),
        ({"order": "position"}, "order"),  # of the other reader
        ({"surprise": 1}, "surprise"),
        ({"collection": ""}, "collection"),
        ({"timeout_s": 0}, "timeout_s"),
    ],
)
def test_an_option_that_does_not_fit_the_settings_is_named(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as raised:
        question_for(SETTINGS, "Which ferry?", **options)
    assert raised.value.field == field


def test_a_question_is_checked_over_the_settings_too() -> None:
    with pytest.raises(InputError, match="empty"):
        question_for(Settings(), " \x00 ")

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.documents.sentences import sentence_spans


def split(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


@pytest.mark.parametrize(
    "text",
    [
        "It rained. ¦ Nobody came.",
        "Dr. Smith met Mr. and Mrs. Jones. ¦ They spoke.",
        "It costs 3.14 euros, i.e. little. ¦ Pay now!",
        "See Fig. 3 and No. 5 on p. 7. ¦ No. ¦ He left.",
        "It is made by Acme Inc. in Ohio. ¦ The works are old.",
        "He left the U.S. in 1998. ¦ In 1999 he was in the U.S. ¦ The rest is known.",
        "J. R. R. Tolkien wrote it. ¦ C. S. Lewis read it.",
        "So did I. ¦ Then it was over.",
        "Smith et al. (2020) found it. ¦ Jones et al. ¦ They did not.",
        "It closes at 5 p.m. ¦ After that it is dark.",
        "It was born on 3 Jan. 1950 in Vol. 2 of it. ¦ Done.",
        '"Really?" he asked. ¦ "Go!" ¦ She went (not far.) ¦ End.',
        "He said “no.” ¦ She said ‘yes.’",
        "Well... maybe. ¦ Well... ¦ Maybe. ¦ What?! ¦ Yes!!",
        "It is so.[3] ¦ And so.¹² ¦ End.",
        "Yahoo! is a firm. ¦ Go. on",
        "Version 2.0 of a.b.c is out. ¦ Read www.example.com. ¦ Good.",
        "彼は言った。¦「そうだ。」¦本当？¦はい！",
        "价格是３．５元。¦好。",
        "यह एक वाक्य है। ¦ यह दूसरा है।",
        "هل هذا صحيح؟ ¦ نعم.",
        "wrapped\nline. ¦ Second",
        "no stop\n\n ¦ but a blank line",
        "Intro:\n ¦ - one. ¦ Two\n ¦ - three\n ¦ 1. First item. ¦ More\n ¦ 12) twelfth",
        "| a | b |¦\n|---|---|¦\n| 1. x | 2 |",
        "   ",
        "...",
        "one",
    ],
)
def test_sentences(text: str) -> None:
    expected = [part.strip() for part in text.split("¦")]
    assert split(text.replace(" ¦ ", " ").replace("¦", "")) == [part for part in expected if part]


@given(st.text(alphabet=st.sampled_from("aB. \n!?。」\"'([1I-|…³") | st.characters()))
def test_every_character_is_in_one_sentence(text: str) -> None:
    spans = sentence_spans(text)
    ends = [0, *(end for _, end in spans)]
    assert all(before <= start < end for before, (start, end) in zip(ends, spans, strict=False))
    assert all(text[start:end] == text[start:end].strip() for start, end in spans)
    assert "".join(text[start:end] for start, end in spans).split() == "".join(split(text)).split()
    assert [c for s, e in spans for c in text[s:e] if not c.isspace()] == [c for c in text if not c.isspace()]

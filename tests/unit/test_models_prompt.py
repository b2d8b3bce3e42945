"""Text made inert: no tag and no control token of a chat template survives, and people can still read it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.models.prompt import CONTROL_TOKEN, indented, inert, one_line, render, room
from mrag.models.scripted import ScriptedModel

TOKENS = {
    "<s>": "< s>",
    "</s>": "< /s>",
    "<|im_start|>": "< |im_start|>",
    "<|eot_id|>": "< |eot_id|>",
    "<｜User｜>": "< ｜User｜>",
    "<start_of_turn>": "< start_of_turn>",
    "<end_of_turn>": "< end_of_turn>",
    "<think>": "< think>",
    "<<SYS>>": "<< SYS>>",
    "<</SYS>>": "<< /SYS>>",
    "[INST]": "[ INST]",
    "[/INST]": "[ /INST]",
    "[/SYSTEM_PROMPT]": "[ /SYSTEM_PROMPT]",
    "[TOOL_CALLS]": "[ TOOL_CALLS]",
    "[THINK]": "[ THINK]",
    "[gMASK]": "[ gMASK]",
}


@pytest.mark.parametrize("token", TOKENS)
def test_a_control_token_is_opened(token: str) -> None:
    assert CONTROL_TOKEN.search(token)
    assert inert(f"a{token}{token}b") == f"a{TOKENS[token] * 2}b"
    assert not CONTROL_TOKEN.search(inert(token))


@pytest.mark.parametrize(
    "text",
    [
        "See [3], [S1] and [TODO]; [text](a.md) and [[INSTALL]].",
        "[INST is open, INST] is closed, [inst] is small",
        "1 < 2, a <= b, x<3, a << b",
        "[INSTRUCTIONS] [THINKING] [ARGS=1]",
    ],
)
def test_what_documents_often_hold_stays_as_it_is(text: str) -> None:
    assert inert(text) == text


TEXTS = st.text(st.sampled_from("<>|/[S1]ａé \n\r\u2028\x85\x0b") | st.characters(), max_size=60)


@given(st.lists(TEXTS | st.sampled_from([*TOKENS, "<", "[", "[/"]), max_size=6).map("".join))
def test_no_token_and_no_line_of_its_own_survives(text: str) -> None:
    for harmless in (inert(text), one_line(text), indented(text)):
        assert not re.search(r"<[^\s\d=<]", harmless)
        assert not CONTROL_TOKEN.search(harmless)
        assert inert(harmless) == harmless
        assert "".join(harmless.split()) == "".join(text.split())
    assert len(one_line(text).splitlines()) <= 1
    assert all(line.startswith("  ") for line in indented(text).splitlines()[1:])


def test_values_are_filled_in_and_not_read_again() -> None:
    _, asked = render("answer", context="$question ${question} $$", question="Why?")
    assert (asked.role, "$question ${question} $$" in asked.content) == ("user", True)
    assert asked.content.endswith("Question: Why?")
    with pytest.raises(KeyError):
        render("answer", context="")


def test_room_is_what_prompt_and_reply_leave() -> None:
    messages = render("answer", context="one two", question="Why?")
    model = ScriptedModel([], window_tokens=100)
    used = model.count_prompt_tokens(messages)
    assert (room(model, messages, 10), room(model, messages, 100)) == (90 - used, -used)

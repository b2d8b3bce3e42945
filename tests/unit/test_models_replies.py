"""A reply without its monologue and its fence, and the JSON objects of whatever is left."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.errors import EmptyReplyError
from mrag.models.language_model import Message, Request
from mrag.models.replies import MOST_BROKEN, answer_of, objects
from mrag.models.scripted import ScriptedModel

DRAFT, ANSWER = '{"row": "a draft"}', '{"row": "the answer"}'


@pytest.mark.parametrize(
    "reply",
    [
        ANSWER,
        f" \n{ANSWER}\n",
        f"```json\n{ANSWER}\n```",
        f"```\n{ANSWER}",
        f"```json {ANSWER}```",
        f"<think>\n{DRAFT}\n</think>\n\n{ANSWER}",
        f"<think></think>{ANSWER}",
        f"<think>{DRAFT}</think>\n```json\n{ANSWER}\n```",
        f"Perhaps {DRAFT}?\n</think>\n{ANSWER}",  # opened by the chat template
        f"{DRAFT}</think>{ANSWER}",
        f"<think>{DRAFT}</think>{ANSWER}<think>{DRAFT}</think>",
        f"<think>{DRAFT}</think>{ANSWER}<think>Was it {DRAFT}",
        f"<think>{DRAFT}<think>{DRAFT}</think>{DRAFT}</think>{ANSWER}",
        f"<think>one</think>{DRAFT}</think>{ANSWER}",
        f"<THINK>{DRAFT}</THINK>{ANSWER}".lower().replace("think", "thinking"),
        f"<seed:think>{DRAFT}</seed:think>{ANSWER}",
        f"[THINK]{DRAFT}[/THINK]{ANSWER}",
    ],
)
def test_the_answer_stands_outside_of_monologue_and_fence(reply: str) -> None:
    assert answer_of(reply) == ANSWER


@pytest.mark.parametrize(
    "reply",
    ["<think>", f"<think>Perhaps {DRAFT}", f" \n[THINK]{DRAFT}", f"{DRAFT}</think>", "```json\n```", " \n"],
)
async def test_a_monologue_without_an_end_is_no_reply(reply: str) -> None:
    assert answer_of(reply) == ""
    with pytest.raises(EmptyReplyError):
        await ScriptedModel(lambda _: reply).complete(Request((Message("user", "Why?"),), 9, "answer"))


@pytest.mark.parametrize(
    "reply",
    [
        "Gdansk",
        "42",
        "a < b and a <= c",
        "He stopped [thinking] and left",
        '{"fact": "The tag <think> opens it and </think> closes it."}',
        '[{"fact": "</think>"}]',
        '{"fact": "[THINK]"}',
        "```Alma``` and ```Runa``` sail.",
    ],
)
def test_what_is_no_monologue_stays(reply: str) -> None:
    assert answer_of(reply) == reply.removeprefix("```")


SAID = st.text(st.sampled_from('{}[]":` a\n'), max_size=9)
THOUGHT = SAID | st.sampled_from([DRAFT, "<think>"])


@given(st.lists(st.tuples(THOUGHT, SAID), max_size=4), THOUGHT, SAID)
def test_what_was_thought_is_not_answered(turns: list[tuple[str, str]], begun: str, last: str) -> None:
    said = "".join(text for _, text in turns) + last
    blocks = "".join(f"<think>{thought}</think>{text}" for thought, text in turns) + last
    assert answer_of("x" + blocks) == answer_of("x" + said)
    assert answer_of(f"x{blocks}<think>{begun}") == answer_of("x" + said)
    assert answer_of(f"x{blocks}{begun.replace('<think>', '')}</think>{ANSWER}") == ANSWER


BROKEN: dict[str, tuple[str, list[dict[str, Any] | str]]] = {
    "nothing": ("", []),
    "prose": ("There is none.", []),
    "one": ('{"a": 1}', [{"a": 1}]),
    "around it": ('So: {"a": 1}, {"b": {"c": 2}}!', [{"a": 1}, {"b": {"c": 2}}]),
    "in a list": ('[{"a": 1}, 5, {"b": 2}]', [{"a": 1}, {"b": 2}]),
    "in a list that is cut": ('{"rows": [{"a": 1}, {"b": ', ['{"rows": [', {"a": 1}, '{"b": ']),
    "a comma too many": ('{"a": 1,} {"b": 2}', ['{"a": 1,}', {"b": 2}]),
    "a break in a string": ('{"a": "b\nc"}', [{"a": "b\nc"}]),
    "a brace in a string": ('{"a": "}{"}', [{"a": "}{"}]),
    "braces in prose": ('{x, y} {"a": 1}', ["{x, y}", {"a": 1}]),
    "only brackets": ("[" * 5000, []),
    "only braces": ("{" * 200, ["{"] * 200),
    "a flood of braces": ("{" * 20000, ["{"] * MOST_BROKEN),
    "too deep": ('{"a":' * 3000, ['{"a":'] * MOST_BROKEN),
    "many": ('{"a": 1}, ' * 3000, [{"a": 1}] * 3000),
    "a number too long to read": (f'{{"a": {"9" * 5000}}} {{"b": 2}}', [f'{{"a": {"9" * 5000}}}', {"b": 2}]),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_objects_come_in_order_and_broken_ones_as_their_text(name: str) -> None:
    answer, expected = BROKEN[name]
    assert list(objects(answer)) == expected


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=9),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(st.text(max_size=3), below, max_size=2),
    max_leaves=5,
)
OBJECTS = st.lists(st.dictionaries(st.text(max_size=3), JSON, max_size=2), max_size=3)


@given(OBJECTS, st.text(st.sampled_from("ab: ,]\n")))
def test_every_whole_object_is_found(trees: list[dict[str, Any]], between: str) -> None:
    assert list(objects(between + between.join(map(json.dumps, trees)))) == trees


@given(st.text(st.sampled_from('{}[]":,\\1a ')))
def test_broken_texts_follow_each_other(answer: str) -> None:
    at = 0
    for text in objects(answer):
        if isinstance(text, str):
            assert text.startswith("{")
            at = answer.index(text, at) + len(text)

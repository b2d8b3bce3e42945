from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.indexing.form import Form
from mrag.indexing.records import Draft
from mrag.indexing.tagging import Window
from mrag.indexing.validation import parse
from mrag.schema import SourceUnit

TEXTS = ("The ferry Alma was built in Gdansk in 1962.", "It carries 90 passengers.", "It sails from May on.")
Q, V = "When was the ferry Alma built?", "The ferry Alma was built in Gdansk in 1962."
Q2, V2 = "How many passengers are there?", "The ferry Alma carries 90 passengers."


def window(*texts: str, first: int = 7) -> Window:
    units = [SourceUnit("d", first + at, 0, len(text), text) for at, text in enumerate(texts)]
    return Window("Harbour notes", tuple(units))


WINDOW = window(*TEXTS)


def record(units: object = (7,), key: object = Q, value: object = V) -> str:
    return json.dumps({"units": units, "key": key, "value": value})


def with_key(key: str) -> str:
    return record(key=key)


def with_value(value: str) -> str:
    return record(value=value)


def reply(*records: str) -> str:
    return f'{{"records": [{", ".join(records)}]}}'


ONE = record()
TWO = record([8], Q2, V2)
FIRST, SECOND = Draft((Q,), V, (7,)), Draft((Q2,), V2, (8,))

# name: (reply, what is kept, how much is rejected)
BROKEN: dict[str, tuple[str, list[Draft], int]] = {
    "as asked": (reply(ONE, TWO), [FIRST, SECOND], 0),
    "bare list": (f"[{ONE}, {TWO}]", [FIRST, SECOND], 0),
    "single object": (ONE, [FIRST], 0),
    "objects one after the other": (f"{ONE}\n{TWO}", [FIRST, SECOND], 0),
    "two wrapped objects": (reply(ONE) + "\n" + reply(TWO), [FIRST, SECOND], 0),
    "prose around": (f"Sure! Here you are:\n{reply(ONE, TWO)}\nI hope this helps.", [FIRST, SECOND], 0),
    "prose with braces": (f"The set {{a, b}}: {reply(ONE)}", [FIRST], 1),
    "a record in a thought": (f"<think>{reply(TWO)} hm</think>{reply(ONE)}", [FIRST], 0),
    "a thought that the prompt began": (f"Perhaps {TWO}? </think>{reply(ONE)}", [FIRST], 0),
    "a thought without end": (f"<think>Perhaps {reply(ONE, TWO)}", [], 0),
    "a tag of a thought in a value": (reply(ONE, with_value("a <think> b")), [FIRST], 1),
    "missing comma between records": (reply(f"{ONE} {TWO}"), [FIRST, SECOND], 0),
    "missing comma between fields": (reply(ONE.replace('", "value"', '"\n"value"')), [FIRST], 0),
    "missing comma after the units": (reply(ONE.replace("], ", "] "), TWO), [FIRST, SECOND], 0),
    "trailing comma in the list": (f'{{"records": [{ONE}, {TWO},]}}', [FIRST, SECOND], 0),
    "trailing comma in a record": (reply(ONE[:-1] + ",}", TWO), [FIRST, SECOND], 0),
    "single quotes": (reply(ONE).replace('"', "'"), [FIRST], 0),
    "single quotes around an apostrophe": (
        "{'units': [7], 'key': 'What is Alma\\'s age?', 'value': 'Alma's from Gdansk.'}",
        [Draft(("What is Alma's age?",), "Alma's from Gdansk.", (7,))],
        0,
    ),
    "quotes inside a string": (
        '{"units": [7], "key": "Who is "Alma"?", "value": "She is "the ferry" here."}',
        [Draft(('Who is "Alma"?',), 'She is "the ferry" here.', (7,))],
        0,
    ),
    "bad escape": (
        r'{"units": [7], "key": "What is \d here?", "value": "It\'s the \"ferry Alma\" in Gdansk."}',
        [Draft((r"What is \d here?",), "It's the \"ferry Alma\" in Gdansk.", (7,))],
        0,
    ),
    "line break in a string": (
        with_value("Built\nin 1962.").replace("\\n", "\n"),
        [Draft((Q,), "Built\nin 1962.", (7,))],
        0,
    ),
    "missing brace between records": (reply(ONE[:-1] + ", " + TWO), [FIRST, SECOND], 0),
    "cut in a value": (reply(ONE, TWO)[:-30], [FIRST], 0),
    "cut in a key": ('{"records": [' + ONE + ', {"units": [8], "key": "How ma', [FIRST], 0),
    "cut after a comma": ('{"records": [' + ONE + ",", [FIRST], 0),
    "cut in the first record": ('{"records": [{"units": [7], "key": "Wh', [], 0),
    "not a number": (reply('{"units": [NaN], "key": "a b", "value": "c d"}', TWO), [SECOND], 1),
    "infinite number": (reply('{"units": [1e999], "key": "a b", "value": "c d"}', TWO), [SECOND], 1),
    "number too long to read": (reply(record([7])[:10] + "9" * 5000 + record()[11:], TWO), [SECOND], 1),
    "doubled field": (reply(ONE[:-1] + ', "key": "Where is it?"}'), [Draft(("Where is it?",), V, (7,))], 0),
    "unknown unit": (reply(record([6]), record([7, 10]), TWO), [SECOND], 2),
    "no unit": (reply(record([]), record(None), '{"key": "a b", "value": "c d"}', TWO), [SECOND], 3),
    "too many units": (reply(record([7, 8, 9]), TWO), [SECOND], 1),
    "units as a number": (reply(record(7)), [FIRST], 0),
    "units as strings": (reply(record(["[7]", "8"])), [Draft((Q,), V, (7, 8))], 0),
    "units as a whole float": (reply(record([7.0])), [FIRST], 0),
    "units of wrong types": (reply(record([True]), record({"n": 7}), record([7.5]), record("seven")), [], 4),
    "repeated units in disorder": (reply(record([8, 7, 8])), [Draft((Q,), V, (7, 8))], 0),
    "key of a wrong type": (reply(record(key=7), record(key=None), record(key=[Q]), TWO), [SECOND], 3),
    "value of a wrong type": (reply(record(value=1962), record(value={"a": V}), TWO), [SECOND], 2),
    "empty texts": (reply(record(key=" "), record(value="\n")), [], 2),
    "labels for keys": (reply(*map(with_key, ("1", "Key 1", "units", "Question", "Q", "?"))), [], 6),
    "labels for values": (reply(*map(with_value, ("[7]", "1962", "7.", "value", "..."))), [], 5),
    "identifiers for both": (reply(record(key="[7]", value="[7] [8]")), [], 1),
    "leaked identifiers": (reply(record(key=f"[7] {Q}", value=f"{V} [7][8]")), [FIRST], 0),
    "control tokens": (reply(with_key("a b<|im_end|>"), *map(with_value, ("a b</s>", "[INST] a b"))), [], 3),
    "a key without end": (reply(record(key="why " * 200)), [], 1),
    "a value without end": (reply(record(value="and so on " * 200)), [], 1),
    "a key that repeats its value": (reply(record(key=V.upper())), [], 1),
    "a value of another unit": (reply(record([9]), record([8, 9]), TWO), [SECOND], 2),
    "the same twice": (reply(ONE, ONE), [FIRST], 0),
    "records that are none": (reply("1", '"text"', "null", "[]", "{}", ONE), [FIRST], 4),
    "wrapper of a wrong type": ('{"records": "none"}', [], 1),
    "a string": ('"I can not do that."', [], 1),
    "prose only": ("I can not do that.", [], 0),
    "blanks": (" \n ", [], 0),
    "NUL and half a pair": (
        '{"units": [7], "key": "a\\u0000 b", "value": "Alma \\ud83d ferry"}',
        [Draft(("a\ufffd b",), "Alma \ufffd ferry", (7,))],
        0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_replies(name: str) -> None:
    text, kept, rejected = BROKEN[name]
    parsed = parse(text, WINDOW, Form(max_pointers=2))
    assert list(parsed.drafts) == kept
    assert len(parsed.rejected) == rejected, parsed.rejected


def test_a_value_of_the_text_around_is_rejected() -> None:
    gap = Window(
        "Harbour notes", window("It carries 90 passengers.").units, before=V, after="It sails from May on."
    )
    parsed = parse(
        reply(record(), record(value="It sails from May on."), record(value="It carries 90.")),
        gap,
        Form(max_pointers=1),
    )
    assert [draft.value for draft in parsed.drafts] == ["It carries 90."]


def test_a_mark_of_the_source_is_no_identifier() -> None:
    cited = window("As was shown before [7], it works.", first=7)
    [draft] = parse(
        record(key="What was shown [7]?", value="It was shown before [7]."), cited, Form(max_pointers=1)
    ).drafts
    assert (draft.keys, draft.value) == (("What was shown [7]?",), "It was shown before [7].")


def test_other_scripts_need_no_spaces() -> None:
    ferry = window("这艘渡船于1962年在格但斯克建成。")
    [draft] = parse(
        record(key="渡船是哪一年建造的？", value="渡船于1962年建成。"), ferry, Form(max_pointers=1)
    ).drafts
    assert draft.value == "渡船于1962年建成。"


@given(st.text(alphabet=st.sampled_from("{}[]\",:'\\ \n" + "unitskeyvalue789")) | st.text())
def test_no_reply_ends_the_run(text: str) -> None:
    for draft in parse(text, WINDOW, Form(max_pointers=2)).drafts:
        assert set(draft.pointers) <= {7, 8, 9}


@given(st.lists(st.sampled_from([ONE, TWO]), min_size=1, max_size=4), st.data())
def test_a_cut_reply_keeps_what_is_complete(records: list[str], data: st.DataObject) -> None:
    whole = reply(*records)
    at = data.draw(st.integers(0, len(whole)))
    ends = [len(reply(*records[: n + 1])) - len("}]}") for n in range(len(records))]
    complete = {name for name, end in zip(records, ends, strict=True) if end <= at}
    assert len(parse(whole[:at], WINDOW, Form(max_pointers=2)).drafts) == len(complete)

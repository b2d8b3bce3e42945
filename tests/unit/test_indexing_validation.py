from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.indexing.form import Form
from mrag.indexing.tagging import Window
from mrag.indexing.validation import parse
from mrag.schema import SourceUnit

TEXTS = ("The ferry Alma was built in Gdansk in 1962.", "It carries 90 passengers.", "It sails in May.")
WINDOW = Window(
    "Harbour notes",
    tuple(SourceUnit("d", 7 + at, 0, len(text), text) for at, text in enumerate(TEXTS)),
)
GOOD: dict[str, Any] = {"units": [7], "key": "When was Alma built?", "value": "Alma was built in 1962."}
OTHER: dict[str, Any] = {"units": [8], "key": "How many fit in Alma?", "value": "Alma carries 90 passengers."}
ONE, TWO = json.dumps(GOOD), json.dumps(OTHER)


def changed(**fields: Any) -> str:
    return json.dumps({**GOOD, **fields})


def without(field: str) -> str:
    return json.dumps({name: value for name, value in GOOD.items() if name != field})


def raw(units: str) -> str:
    return f'{{"units": {units}, "key": "When was it built?", "value": "It was built in 1962."}}'


NO_UNIT, NOT_SHOWN, TOO_MANY = "no unit", "not shown", "too many"
NO_KEY, NO_VALUE, EMPTY_KEY, EMPTY_VALUE = "has no key", "has no value", "key is empty", "value is empty"
LABEL_KEY, LABEL_VALUE, LONG_KEY = "key is a label", "value is a label", "key is too long"
CONTROL_KEY, CONTROL_VALUE, LONG_VALUE = "key holds a control", "value holds a control", "value is longer"

# name: (the record, why it is rejected)
REJECTED: dict[str, tuple[str, str]] = {
    "null units": (changed(units=None), NO_UNIT),
    "no units field": (without("units"), NO_UNIT),
    "units of another name": (json.dumps({"pointers": [7], **json.loads(without("units"))}), NO_UNIT),
    "no numbers": (changed(units=[]), NO_UNIT),
    "a word for a unit": (changed(units=["seven"]), NO_UNIT),
    "nested units": (changed(units=[[7]]), NO_UNIT),
    "an object for units": (changed(units={"7": 7}), NO_UNIT),
    "true for a unit": (changed(units=[True]), NO_UNIT),
    "half a unit": (changed(units=[7.5]), NO_UNIT),
    "NaN": (raw("[NaN]"), NO_UNIT),
    "infinity": (raw("[Infinity, -Infinity]"), NO_UNIT),
    "a float beyond all": (raw("[1e999]"), NO_UNIT),
    "a number beyond all": (raw("[" + "9" * 400 + "]"), NOT_SHOWN),
    "a string of a number beyond all": (changed(units=["9" * 400]), NO_UNIT),
    "the unit before": (changed(units=[6]), NOT_SHOWN),
    "the unit after": (changed(units=[10]), NOT_SHOWN),
    "one of two unknown": (changed(units=[7, 10]), NOT_SHOWN),
    "zero": (changed(units=[0]), NOT_SHOWN),
    "a negative number": (changed(units=[-7]), NOT_SHOWN),
    "all units": (changed(units=[7, 8, 9]), TOO_MANY),
    "no key": (without("key"), NO_KEY),
    "null key": (changed(key=None), NO_KEY),
    "a number for a key": (changed(key=7), NO_KEY),
    "a list for a key": (changed(key=["When was it built?"]), NO_KEY),
    "an object for a key": (changed(key={"text": "When was it built?"}), NO_KEY),
    "empty key": (changed(key=""), EMPTY_KEY),
    "blank key": (changed(key=" \n\t\u00a0"), EMPTY_KEY),
    "bare number as key": (changed(key="1"), LABEL_KEY),
    "numbered key": (changed(key="Key 1"), LABEL_KEY),
    "field name as key": (changed(key="units"), LABEL_KEY),
    "question mark as key": (changed(key="?"), LABEL_KEY),
    "punctuation as key": (changed(key="... --- ..."), LABEL_KEY),
    "numbers as key": (changed(key="1, 2, 3"), LABEL_KEY),
    "year as key": (changed(key="1962"), LABEL_KEY),
    "one word as key": (changed(key="Alma"), LABEL_KEY),
    "identifier as key": (changed(key="[7]"), EMPTY_KEY),
    "identifiers as key": (changed(key="[7] [8]"), EMPTY_KEY),
    "labelled paragraph as key": (changed(key="Paragraph 7:"), LABEL_KEY),
    "key without end": (changed(key="why and " * 100), LONG_KEY),
    "chat token in key": (changed(key="When was it built?<|im_end|>"), CONTROL_KEY),
    "end token in key": (changed(key="When was it built?</s>"), CONTROL_KEY),
    "no value": (without("value"), NO_VALUE),
    "null value": (changed(value=None), NO_VALUE),
    "a number for a value": (changed(value=1962), NO_VALUE),
    "a list for a value": (changed(value=["It was built in 1962."]), NO_VALUE),
    "false for a value": (changed(value=False), NO_VALUE),
    "empty value": (changed(value=""), EMPTY_VALUE),
    "blank value": (changed(value="\n \n"), EMPTY_VALUE),
    "identifier as value": (changed(value="[7]"), EMPTY_VALUE),
    "number as value": (changed(value="7."), LABEL_VALUE),
    "field name as value": (changed(value="value:"), LABEL_VALUE),
    "dots as value": (changed(value="..."), LABEL_VALUE),
    "value without end": (changed(value="and so on " * 60), LONG_VALUE),
    "chat token in value": (changed(value="It was built.<|endoftext|>"), CONTROL_VALUE),
    "instruction in value": (changed(value="[INST] It was built in 1962."), CONTROL_VALUE),
    "thought in value": (changed(value="<think>It was built in 1962."), CONTROL_VALUE),
    "the value as key": (changed(key=GOOD["value"]), "only repeats its value"),
    "the value as key, in capitals": (changed(key=GOOD["value"].upper()), "only repeats its value"),
    "another unit's fact": (changed(value="It carries 90 passengers."), "taken from a unit"),
    "empty object": ("{}", NO_UNIT),
    "another object": ('{"answer": "It was built in 1962."}', NO_UNIT),
    "a string": ('"It was built in 1962."', NO_UNIT),
    "a number": ("7", NO_UNIT),
    "null": ("null", NO_UNIT),
}  # fmt: skip


@pytest.mark.parametrize("name", REJECTED)
def test_a_bad_record_has_its_reason_and_costs_no_other(name: str) -> None:
    bad, reason = REJECTED[name]
    parsed = parse(f'{{"records": [{ONE}, {bad}, {TWO}]}}', WINDOW, Form(max_pointers=2))
    assert [draft.keys for draft in parsed.drafts] == [(GOOD["key"],), (OTHER["key"],)]
    [given_reason] = parsed.rejected
    assert reason in given_reason


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda below: (
        st.lists(below, max_size=4)
        | st.dictionaries(st.sampled_from(["records", "units", "key", "value"]), below)
    ),
    max_leaves=20,
)


@given(JSON)
def test_whatever_json_is_replied_only_valid_records_come_out(tree: Any) -> None:
    for draft in parse(json.dumps(tree), WINDOW, Form(max_pointers=2)).drafts:
        assert set(draft.pointers) <= set(WINDOW.numbers)
        assert 1 <= len(draft.pointers) <= 2
        assert draft.value.strip()
        assert all(key.strip() for key in draft.keys)

"""What is asked for by granularity, value and keys: schema, prompt, examples, and how a reply is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mrag.errors import SettingsError
from mrag.indexing.form import Form
from mrag.indexing.markers import MarkerPrompt, prompt_fingerprint
from mrag.indexing.tagging import Window
from mrag.indexing.validation import parse
from mrag.models.language_model import Request
from mrag.models.scripted import ScriptedModel
from mrag.models.tokens import ByteTokenizer
from mrag.schema import RecordKind, SourceUnit
from mrag.settings import ExtractionSettings, parse_settings
from tests.marker_replies import build, document, numbered

TEXT = "The ferry Alma was built in Gdansk in 1962. It carries 90 passengers."
WINDOW = Window("Harbour notes", (SourceUnit("d", 4, 0, len(TEXT), TEXT, ("Harbour notes", "Ferries")),))
FACT = "The ferry Alma carries 90 passengers."
BUILT, CARRIES = "Where was the ferry Alma built?", "How many passengers does Alma carry?"

FORMS: dict[str, dict[str, Any]] = {
    "document": {},
    "document, three keys": {"keys_per_record": 3},
    "unit, rewritten": {"granularity": "unit"},
    "unit, rewritten, two keys": {"granularity": "unit", "keys_per_record": 2},
    "unit as it is": {"granularity": "unit", "value": "unit"},
    "unit as it is, three keys": {"granularity": "unit", "value": "unit", "keys_per_record": 3},
}
every_form = pytest.mark.parametrize("name", FORMS)


def prompt(**settings: Any) -> MarkerPrompt:
    return MarkerPrompt(ScriptedModel([]), ExtractionSettings(**settings), ByteTokenizer())


def fields_of(tree: Any) -> list[str]:
    properties = tree["properties"]
    return list(properties["records"]["items"]["properties"] if "records" in properties else properties)


def obeys(value: Any, schema: Any) -> bool:
    """What a grammar holds a reply to, of the keywords that the schemas use."""
    if schema["type"] == "object":
        parts = schema["properties"]
        return list(value) == list(parts) and all(obeys(value[name], parts[name]) for name in parts)
    if schema["type"] == "array":
        return all(obeys(item, schema["items"]) for item in value) and len(value) <= schema["maxItems"]
    return isinstance(value, str | int) and value in schema.get("enum", [value])


@every_form
def test_schema_instruction_and_example_say_the_same(name: str) -> None:
    made = prompt(**FORMS[name])
    window = Window("Harbour notes", (SourceUnit("", 7, 0, 0, "x " * 200, ("Ferries",)),))
    request = made.request(window)
    system, asked, answered, _ = request.messages
    assert fields_of(request.schema) == list(made.form.fields)
    for field in ("units", "value", "key", "keys"):
        assert (f'"{field}":' in system.content) == (field in made.form.fields)
    assert obeys(json.loads(answered.content), request.schema)
    assert "$" not in system.content + asked.content
    assert parse(answered.content, WINDOW_OF_THE_EXAMPLE, made.form).rejected == ()
    assert request.max_tokens > made.expected_tokens(window) > 0


WINDOW_OF_THE_EXAMPLE = Window(
    "Harbour notes",
    (
        SourceUnit(
            "d", 7, 0, 0, "The ferry Alma was built in Gdansk in 1962. It carries 90 passengers and sails "
            "to Holm twice a day from May to September."
        ),
    ),
)  # fmt: skip


@every_form
def test_a_reply_is_read_as_it_was_asked_for(name: str) -> None:
    form = prompt(**FORMS[name]).form
    record = form.record([4], FACT, [CARRIES, "Which ferry carries 90 people?", "What carries 90?"])
    [draft] = parse(json.dumps(form.reply([record])), WINDOW, form).drafts
    assert draft.pointers == (4,)
    assert draft.value == (FACT if form.values else TEXT)
    assert draft.keys[0] == CARRIES
    assert len(draft.keys) == form.keys


def test_a_value_has_no_more_keys_than_were_asked_for() -> None:
    keys = ["Key 1", BUILT, CARRIES, "What carries 90?", "Which ferry carries 90 people?"]
    raw = json.dumps({"records": [{"units": [4], "value": FACT, "keys": keys}]})
    parsed = parse(raw, WINDOW, Form(keys=2))
    assert [draft.keys for draft in parsed.drafts] == [(BUILT, CARRIES)]
    assert parsed.rejected == ("its key is a label or a number",)


UNIT = Form(pointers=False, values=False, keys=3)
REWRITE = Form(pointers=False, values=True, keys=2)
Q1, Q2 = f'"{BUILT}"', f'"{CARRIES}"'

# A reply, its form, the keys that are kept, how much is rejected.
KEYS: dict[str, tuple[str, Form, tuple[str, ...], int]] = {
    "a list of keys": (f'{{"keys": [{Q1}, {Q2}]}}', UNIT, (BUILT, CARRIES), 0),
    "a fence": (f'```json\n{{"keys": [{Q1}]}}\n```', UNIT, (BUILT,), 0),
    "prose around": (f'Here: {{"keys": [{Q1}]}} Good?', UNIT, (BUILT,), 0),
    "one key alone": (f'{{"keys": {Q1}}}', UNIT, (BUILT,), 0),
    "a key instead of keys": (f'{{"key": {Q1}}}', UNIT, (BUILT,), 0),
    "records of one key": (f'{{"records": [{{"key": {Q1}}}, {{"key": {Q2}}}]}}', UNIT, (BUILT, CARRIES), 0),
    "units nobody asked for": (f'{{"units": [99], "keys": [{Q1}]}}', UNIT, (BUILT,), 0),
    "a value nobody asked for": (f'{{"value": "Maud sang.", "keys": [{Q1}]}}', UNIT, (BUILT,), 0),
    "no comma": (f'{{"keys": [{Q1} {Q2}]}}', UNIT, (BUILT, CARRIES), 0),
    "a comma too many": (f'{{"keys": [{Q1}, {Q2},]}}', UNIT, (BUILT, CARRIES), 0),
    "single quotes": (f'{{"keys": [{Q1}, {Q2}]}}'.replace('"', "'"), UNIT, (BUILT, CARRIES), 0),
    "cut in the second key": (f'{{"keys": [{Q1}, {Q2[:-9]}', UNIT, (BUILT,), 0),
    "cut after the first key": (f'{{"keys": [{Q1}, ', UNIT, (BUILT,), 0),
    "the same twice": (f'{{"keys": [{Q1}, {Q1.lower()}]}}', UNIT, (BUILT,), 0),
    "a label among them": (f'{{"keys": ["Key 1", {Q2}, 7, null]}}', UNIT, (CARRIES,), 3),
    "the unit as a key": (json.dumps({"keys": [TEXT, BUILT]}), UNIT, (BUILT,), 1),
    "labels only": ('{"keys": ["1", "2"]}', UNIT, (), 1),
    "no keys": ('{"keys": []}', UNIT, (), 1),
    "nothing": ("{}", UNIT, (), 1),
    "a rewrite": (
        f'{{"records": [{{"value": "{FACT}", "keys": [{Q2}, {Q1}]}}]}}', REWRITE, (CARRIES, BUILT), 0
    ),
    "an invented rewrite": (f'{{"records": [{{"value": "Maud sang.", "keys": [{Q2}]}}]}}', REWRITE, (), 1),
    "a rewrite without a value": (f'{{"records": [{{"keys": [{Q2}]}}]}}', REWRITE, (), 1),
    "a rewrite that is cut": (
        f'{{"records": [{{"value": "{FACT}", "keys": [{Q2}, "How m', REWRITE, (CARRIES,), 0
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KEYS)
def test_broken_lists_of_keys(name: str) -> None:
    reply, form, kept, rejected = KEYS[name]
    parsed = parse(reply, WINDOW, form)
    assert tuple(key for draft in parsed.drafts for key in draft.keys) == kept
    assert len(parsed.rejected) == rejected, parsed.rejected


# --------------------------------------------------------------------------- orders and examples


def test_the_orders_hold_the_same_parts() -> None:
    told = {order: prompt(order=order).request(WINDOW).messages[0].content for order in ("A", "B", "C")}
    words = {order: sorted(text.split()) for order, text in told.items()}
    assert words["A"] == words["B"] == words["C"]
    places = {
        order: [text.index(part) for part in ("Each record holds", "Prefer many", "Reply with JSON")]
        for order, text in told.items()
    }
    assert places["A"] == sorted(places["A"])
    assert places["B"][0] < places["B"][2] < places["B"][1]
    assert places["C"][1] < places["C"][0] < places["C"][2]


EXAMPLE = {
    "title": "渡船",
    "section": ["航运"],
    "units": [[1, "渡船于1962年建成。"], [2, "它可载90人。"]],
    "records": [{"units": [1, 2], "value": "渡船建成。", "keys": ["何时建成？"]},
                {"units": [2], "value": "可载90人。", "keys": ["可载多少人？"]}],
}  # fmt: skip


def test_examples_come_from_the_settings_or_not_at_all() -> None:
    assert [message.role for message in prompt(examples=[]).request(WINDOW).messages] == ["system", "user"]
    shown = prompt(examples=[EXAMPLE, EXAMPLE]).request(WINDOW).messages
    assert [message.role for message in shown[1:-1]] == ["user", "assistant"] * 2
    assert "Title: 渡船\n(section) 航运\n[1] 渡船于1962年建成。\n[2] 它可载90人。" in shown[1].content
    assert "at least 2 records for [1], [2]" in shown[1].content
    assert json.loads(shown[2].content)["records"][0]["units"] == [1, 2]
    assert "何时建成" in shown[2].content
    _, asked, answered, _ = prompt(granularity="unit", examples=[EXAMPLE]).request(WINDOW).messages
    assert ("[1]" in asked.content, "[2]" in asked.content) == (False, True)
    assert len(json.loads(answered.content)["records"]) == 1


def test_what_the_prompt_is_made_of_is_part_of_the_fingerprint() -> None:
    fingerprints = [
        prompt_fingerprint(ExtractionSettings(examples=examples))
        for examples in (None, (), (EXAMPLE,), (EXAMPLE, EXAMPLE))
    ]
    assert len(set(fingerprints)) == 4


@pytest.mark.parametrize(
    ("extraction", "fault"),
    [
        ({"value": "unit"}, "granularity unit"),
        ({"examples": [{**EXAMPLE, "units": [[1, "a"]]}]}, "must point to its units"),
        ({"examples": [{**EXAMPLE, "text": "a"}]}, "not a setting"),
        ({"keys_per_record": 0}, "keys_per_record"),
        ({"order": "D"}, "order"),
    ],
)
def test_bad_settings_are_named(extraction: dict[str, Any], fault: str) -> None:
    with pytest.raises(SettingsError, match=fault):
        parse_settings({"extraction": extraction})


# --------------------------------------------------------------------------- whole documents


async def test_units_are_asked_for_one_at_a_time_and_are_their_own_values() -> None:
    def answer(request: Request) -> str:
        return '{"keys": ["What does it say?", "Which paragraph is it?"]}'

    built, asked = await build(
        numbered(3), answer, granularity="unit", value="unit", keys_per_record=2, window_units=None
    )
    assert [request.messages[-1].content.count("[") for request in asked] == [2, 2, 2]
    assert [(len(r.keys), r.value, r.pointers, r.kind) for r in built.records] == [
        (2, unit.text, (unit.number,), RecordKind.MARKER) for unit in built.units
    ]


async def test_a_unit_whose_keys_are_none_is_asked_again_and_repaired() -> None:
    def answer(request: Request) -> str:
        return '{"keys": ["1"]}' if "[2]" in request.messages[-1].content else '{"keys": ["What is it?"]}'

    built, asked = await build(
        document("One is here.", "Two is here."), answer, granularity="unit", value="unit", retries=1
    )
    assert len(asked) == 3
    assert [r.kind for r in built.records] == [RecordKind.MARKER, RecordKind.FALLBACK]

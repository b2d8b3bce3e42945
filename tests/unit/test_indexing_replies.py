from __future__ import annotations

import json

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

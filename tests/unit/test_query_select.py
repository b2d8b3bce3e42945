"""Selection never reads a wrong document, whatever the model replies (scenarios 30 and 31)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.errors import InputError
from mrag.models.language_model import Completion
from mrag.models.scripted import Rule, ScriptedModel
from mrag.query.select import Selector
from mrag.query.select_listed import parse_selection
from mrag.schema import Pool, Usage
from mrag.settings import SaneReader
from tests.query_pool import candidate, pool

NUMBERS = ("one", "two", "three", "four", "five", "six")
SIX = pool(*(candidate(f"The {word} pier.", f"doc-{n}") for n, word in enumerate(NUMBERS, 1)))

THREE = SaneReader(k=3)


def labels(selected: object) -> list[int]:
    return [int(c.document.id.removeprefix("doc-")) for c in selected.candidates]  # type: ignore[attr-defined]


REPLIES = [
    ('{"selected": [5, 2, 4]}', [5, 2, 4]),
    ('{"selected": [5]}', [5, 1, 2]),
    ('{"selected": []}', [1, 2, 3]),
    ('{"selected": [0]}', [1, 2, 3]),
    ('{"selected": [-2, 6]}', [6, 1, 2]),
    ('{"selected": [7, 6]}', [6, 1, 2]),
    ('{"selected": [6, 6, 6]}', [6, 1, 2]),
    ('{"selected": [6, 5, 4, 3, 2, 1]}', [6, 5, 4]),
    ('{"selected": [2.5, 4]}', [4, 1, 2]),
    ('{"selected": ["4", "[5]"]}', [4, 1, 2]),
    ('{"selected": [[4], [5]]}', [1, 2, 3]),
    ('{"selected": [null, true, {}, 4]}', [4, 1, 2]),
    ('{"selected": ["four", 5]}', [5, 1, 2]),
    ('{"selected": [99999999999999999999, 4]}', [4, 1, 2]),
    ('{"selected": "4"}', [1, 2, 3]),
    ('{"chosen": [4, 5]}', [1, 2, 3]),
    ('{"selected": [4, 5', [4, 1, 2]),
    ('{"selected": [4, 5, 1', [4, 5, 1]),
    ('```json\n{"selected": [4, 5]}\n```', [4, 5, 1]),
    ('<think>maybe [3] or {"selected": [2]}</think>\n{"selected": [4]}', [4, 1, 2]),
    ('Here you are: {"selected": [4, 5]} as asked.', [4, 5, 1]),
    ("{'selected': [4, 5]}", [4, 5, 1]),
    ("selected: [4, 5]", [4, 5, 1]),
    ('{"unselected": [1, 2], "selected": [4, 5]}', [4, 5, 1]),
    ("not selected: [1, 2]; selected: [4, 5]", [4, 5, 1]),
    ("[4, 5]", [4, 5, 1]),
    ("[4]\n[5]", [4, 5, 1]),
    ("4, 5", [4, 5, 1]),
    ("4\n-5\n6", [4, 6, 1]),
    ("The 3 best are 6 and 4.", [1, 2, 3]),
    ("I would read all 6 of them.", [1, 2, 3]),
    ("none", [1, 2, 3]),
    ("the fourth", [1, 2, 3]),
    ("{}", [1, 2, 3]),
    ("\x00{{[[", [1, 2, 3]),
]


@pytest.mark.parametrize(("reply", "expected"), REPLIES)
async def test_whatever_is_replied_is_padded_from_the_pool_in_rank_order(
    reply: str, expected: list[int]
) -> None:
    selection = await Selector(ScriptedModel(lambda _: reply)).select("Which pier?", SIX, THREE)
    assert labels(selection) == expected
    assert selection.usage.calls == 1
    nothing = "Selection chose nothing; the retrieval order was kept."
    assert (nothing in selection.notes) == (not parse_selection(reply, 6))


@given(st.text(st.sampled_from('0123456789-,[]{}":. selctd\n'), max_size=40), st.integers(1, 6))
def test_labels_are_of_the_pool_and_named_once(reply: str, n: int) -> None:
    chosen = parse_selection(reply, n)
    assert set(chosen) <= set(range(1, n + 1))
    assert len(chosen) == len(set(chosen))
    assert all(str(label) in reply for label in chosen)


@given(st.lists(st.integers(-3, 9), max_size=8))
def test_a_well_formed_reply_is_taken_as_it_is(numbers: list[int]) -> None:
    expected = list(dict.fromkeys(n for n in numbers if 1 <= n <= 6))
    assert parse_selection(json.dumps({"selected": numbers}), 6) == expected


@pytest.mark.parametrize("k", [6, 7])
async def test_nothing_is_asked_where_there_is_nothing_to_choose(k: int) -> None:
    model = ScriptedModel([])
    selection = await Selector(model).select("Which pier?", SIX, SaneReader(k=k))
    assert selection.candidates == SIX.candidates
    assert (model.asked, selection.usage) == ([], Usage())


@pytest.mark.parametrize("error", ["timeout", "dead", "empty"])
async def test_a_model_that_fails_leaves_the_retrieval_order_and_a_note(error: str) -> None:
    model = ScriptedModel([Rule(error=error)])  # type: ignore[arg-type]
    selection = await Selector(model).select("Which pier?", SIX, THREE)
    assert labels(selection) == [1, 2, 3]
    assert len(selection.notes) == 1
    assert "the retrieval order was kept" in selection.notes[0]


async def test_a_fault_of_the_engine_is_named_by_its_type() -> None:
    def broken(_: object) -> Completion:
        raise ZeroDivisionError

    selection = await Selector(ScriptedModel(broken)).select("Which pier?", SIX, THREE)
    assert labels(selection) == [1, 2, 3]
    assert "ZeroDivisionError" in selection.notes[0]


async def test_the_request_shows_every_candidate_and_allows_its_labels_only() -> None:
    model = ScriptedModel([Rule({"selected": [2]})])
    await Selector(model).select("Which\npier?", SIX, THREE, timeout_s=7)
    (request,) = model.asked
    prompt = request.messages[-1].content
    assert all(f"[{n}] doc-{n}\n" in prompt for n in range(1, 7))
    assert "Question: Which pier?" in prompt
    assert request.schema is not None
    numbers = request.schema["properties"]["selected"]
    assert (numbers["items"]["enum"], numbers["maxItems"]) == ([1, 2, 3, 4, 5, 6], 3)
    assert request.purpose == "select"
    assert 0 < (request.timeout_s or 0) <= 7


def wide(n: int) -> Pool:
    text = " ".join(f"word{i}" for i in range(60))
    return pool(*(candidate(f"{text} {i}.", f"doc-{i}", title="long title " * 9) for i in range(1, n + 1)))


@pytest.mark.parametrize(("window", "note"), [(1400, "shortened to 50%"), (500, "Only the first")])
async def test_a_small_window_shows_less_and_says_so(window: int, note: str) -> None:
    model = ScriptedModel([Rule({"selected": [2]})], window_tokens=window)
    selection = await Selector(model).select("Which pier?", wide(12), THREE)
    assert labels(selection) == [2, 1, 3]
    assert note in selection.notes[0]
    (request,) = model.asked
    assert model.count_prompt_tokens(request.messages) + request.max_tokens <= window


async def test_a_label_that_was_not_shown_is_not_chosen() -> None:
    model = ScriptedModel([Rule({"selected": [12, 1]})], window_tokens=500)
    selection = await Selector(model).select("Which pier?", wide(12), THREE)
    assert labels(selection) == [1, 2, 3]


async def test_a_question_beyond_the_window_is_refused_by_name() -> None:
    model = ScriptedModel([], window_tokens=500)
    with pytest.raises(InputError, match="too long") as error:
        await Selector(model).select("why " * 500, SIX, THREE)
    assert error.value.field == "question"

"""The rounds of marker extraction: what is asked again, what is repaired, and when a document fails."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st

from mrag.documents.markdown import find_headings
from mrag.errors import EmptyReplyError, EngineDeadError, ModelError, ModelTimeoutError, SettingsError
from mrag.indexing.asking import Asker
from mrag.models.language_model import Completion, Request
from mrag.models.scripted import Rule, ScriptedModel
from mrag.models.skeleton import final
from mrag.schema import Built, Document, RecordKind, Usage
from tests.marker_replies import (
    asked_for,
    build,
    builder,
    document,
    numbered,
    numbers_of,
    one_each,
    record,
    reply,
)

MARKER, FALLBACK = RecordKind.MARKER, RecordKind.FALLBACK


def kinds(built: Built) -> list[RecordKind]:
    return [record.kind for record in built.records]


def repaired(built: Built) -> list[int]:
    """The units that a fallback record points to."""
    return [r.pointers[0] for r in built.records if r.kind is FALLBACK]


def all_but(*left_out: int) -> Any:
    """Replies with a good record for each unit but these."""
    return lambda request: reply(*(record(n) for n in numbers_of(request) if n not in left_out))


# --------------------------------------------------------------------------- the first round


async def test_a_whole_reply_is_asked_for_once() -> None:
    built, asked = await build(numbered(5), one_each, window_units=2)
    assert asked_for(asked) == [[1, 2], [3, 4], [5]]
    assert [record.pointers for record in built.records] == [(1,), (2,), (3,), (4,), (5,)]
    assert kinds(built) == [MARKER] * 5
    assert (built.coverage.extracted, built.coverage.fallback, built.rejected) == (5, 0, {})
    assert built.coverage.before_repair == 1.0


async def test_usage_and_rejections_are_summed_over_all_calls() -> None:
    def half(request: Request) -> str:
        return reply(record(numbers_of(request)[0]), record(99))

    model = ScriptedModel(half)
    built, asked = await build(numbered(4), model, window_units=2, retries=1)
    assert built.rejected == {"it points to a unit that was not shown": len(asked)}
    assert len(asked) == 4
    prompts = sum(model.count_prompt_tokens(request.messages) for request in asked)
    replies = sum(model.count_tokens(half(request)) for request in asked)
    assert built.usage == Usage(4, prompts, replies)


async def test_an_empty_document_asks_nothing() -> None:
    built, asked = await build(document(" \n\n "), one_each)
    assert (built.units, built.records, asked) == ((), (), [])


async def test_without_a_model_the_setting_is_named() -> None:
    with pytest.raises(SettingsError, match="language_model"):
        await builder().build(numbered(1))


# --------------------------------------------------------------------------- gaps


async def test_only_gaps_are_asked_again_each_time_otherwise() -> None:
    built, asked = await build(numbered(7), all_but(2, 5, 6), window_units=4, retries=3)
    assert asked_for(asked) == [[1, 2, 3, 4], [5, 6, 7], *[[2], [5, 6]] * 3]
    assert repaired(built) == [2, 5, 6]
    assert len(built.records) == 7
    rounds = [asked[0], asked[2], asked[4], asked[6]]
    assert len({request.seed for request in rounds}) == 4
    assert rounds[0].temperature == 0.0
    assert all(0.0 < request.temperature <= 1.0 for request in rounds[1:])


async def test_a_gap_is_asked_between_its_neighbours_until_it_is_filled() -> None:
    def script(request: Request) -> Any:
        return (all_but(4) if request.seed else all_but(3, 4, 7))(request)

    built, asked = await build(numbered(7), script, window_units=4, retries=2)
    assert [(request.seed, numbers_of(request)) for request in asked] == [
        (0, [1, 2, 3, 4]),
        (0, [5, 6, 7]),
        (1, [3, 4]),
        (1, [7]),
        (2, [4]),
    ]
    temperatures = [request.temperature for request in asked]
    assert temperatures == sorted(temperatures)
    assert len(set(temperatures)) == 3
    assert "(before) Paragraph 3 says" in asked[-1].messages[-1].content
    assert "(after) Paragraph 5 says" in asked[-1].messages[-1].content
    assert repaired(built) == [4]
    assert built.coverage.before_repair == pytest.approx(6 / 7)
    assert built.coverage.after_repair == 1.0


async def test_a_gap_is_asked_alone_where_its_neighbours_do_not_fit() -> None:
    given_document, free = document(*["word " * 75] * 3), ScriptedModel(all_but(2))
    _, asked = await build(given_document, free, window_units=1, retries=1)
    assert "(before)" in asked[-1].messages[-1].content
    room = free.count_prompt_tokens(asked[-1].messages) + asked[-1].max_tokens
    tight = ScriptedModel(all_but(2), window_tokens=room - 1)
    _, asked = await build(given_document, tight, window_units=1, retries=1)
    assert asked_for(asked) == [[1], [2], [3], [2]]
    assert asked[-1].messages == asked[1].messages


async def test_a_round_that_fills_the_gaps_is_the_last() -> None:
    def second_time(request: Request) -> Any:
        return one_each(request) if request.seed else all_but(2)(request)

    built, asked = await build(numbered(3), second_time, window_units=4, retries=2)
    assert asked_for(asked) == [[1, 2, 3], [2]]
    assert kinds(built) == [MARKER] * 3


@pytest.mark.parametrize(("coverage", "calls"), [(0.3, 1), (0.5, 1), (0.6, 2)])
async def test_no_retry_where_the_coverage_asked_for_is_reached(coverage: float, calls: int) -> None:
    built, asked = await build(
        numbered(4), lambda request: reply(record(1, 2)), window_units=None, coverage=coverage, retries=1
    )
    assert len(asked) == calls
    assert (built.coverage.extracted, built.coverage.fallback) == (2, 2)
    assert repaired(built) == [3, 4]


async def test_the_whole_document_is_asked_again_as_in_the_paper_and_the_best_try_is_kept() -> None:
    left_out = {0: (2, 5), 1: (4,), 2: (1, 3)}

    def script(request: Request) -> Any:
        return all_but(*left_out[request.seed])(request)

    built, asked = await build(numbered(5), script, window_units=3, retries=2, retry="document")
    assert asked_for(asked) == [[1, 2, 3], [4, 5]] * 3
    assert [request.seed for request in asked] == [0, 0, 1, 1, 2, 2]
    assert not any("(before)" in request.messages[-1].content for request in asked)
    assert repaired(built) == [4]
    left_out[1] = ()
    built, asked = await build(numbered(5), script, window_units=3, retries=2, retry="document")
    assert (len(asked), repaired(built)) == (4, [])


async def test_a_window_that_fails_in_one_try_of_the_document_is_taken_from_another() -> None:
    def fails_second(request: Request) -> Any:
        return (
            Rule(error="timeout") if request.seed == 1 and 1 in numbers_of(request) else all_but(3)(request)
        )

    built, _ = await build(numbered(3), fails_second, window_units=1, retries=2, retry="document")
    assert repaired(built) == [3]


async def test_an_answer_is_not_thrown_away_with_a_try_that_covers_less() -> None:
    def answers_once(request: Request) -> Any:
        if request.seed == 0 and numbers_of(request) == [3]:
            return Rule(error="timeout")
        return one_each(request) if request.seed == 0 or numbers_of(request) == [3] else "nothing"

    built, asked = await build(numbered(3), answers_once, window_units=2, retries=2, retry="document")
    assert asked_for(asked) == [[1, 2], [3]] * 2
    assert repaired(built) == []


# --------------------------------------------------------------------------- bad replies


@pytest.mark.parametrize(
    "garbage", ["I can not do that.", "{}", '{"records": []}', "[[[", '{"units": [99]}', '"x"', "\\"]
)
async def test_garbage_leaves_every_unit_reachable_by_its_own_text(garbage: str) -> None:
    built, asked = await build(numbered(5), lambda request: garbage, window_units=2, retries=1)
    assert [(r.keys, r.value, r.pointers) for r in built.records] == [
        ((unit.text,), unit.text, (unit.number,)) for unit in built.units
    ]
    assert kinds(built) == [FALLBACK] * 5
    assert sum(built.rejected.values()) >= len(asked)
    assert (built.coverage.extracted, built.coverage.fallback) == (0, 5)
    assert built.coverage.after_repair == 1.0
    assert asked_for(asked) == [[1, 2], [3, 4], [5]] * 2


async def test_one_bad_window_costs_itself() -> None:
    def script(request: Request) -> str:
        return "no" if numbers_of(request)[0] == 3 else one_each(request)

    built, _ = await build(numbered(7), script, window_units=2, retries=0)
    assert repaired(built) == [3, 4]


class Mimic:
    """Replies with whatever hypothesis draws, and sometimes well."""

    def __init__(self, replies: list[str | None]) -> None:
        self._replies = replies

    def __call__(self, request: Request) -> Completion:
        text = self._replies.pop() if self._replies else None
        return Completion((text or "").strip() or one_each(request), Usage(1, 1, 1))


@budget(max_examples=50, deadline=None)
@given(
    st.text(alphabet="ab #\n.[1]`", min_size=1, max_size=80).filter(str.strip),
    st.lists(st.none() | st.text(alphabet='{}[]"unitskeyvalue:,1 ', max_size=60), max_size=6),
    st.none() | st.integers(1, 3),
)
async def test_every_unit_is_pointed_to_whatever_the_model_says(
    text: str, replies: list[str | None], window_units: int | None
) -> None:
    given_document = Document("d", text, headings=find_headings(text))
    built, _ = await build(given_document, Mimic(replies), window_units=window_units, retries=1)
    numbers = {unit.number for unit in built.units}
    assert {number for r in built.records for number in r.pointers} == numbers
    assert built.coverage.extracted + built.coverage.fallback == built.coverage.units == len(built.units)
    assert len({r.id for r in built.records}) == len(built.records)


# --------------------------------------------------------------------------- no reply at all


@pytest.mark.parametrize(
    ("error", "raised"),
    [("timeout", ModelTimeoutError), ("dead", EngineDeadError), ("empty", EmptyReplyError)],
)
async def test_a_window_that_is_never_answered_fails_the_document(
    error: Any, raised: type[ModelError]
) -> None:
    def fails_at_three(request: Request) -> Any:
        return Rule(error=error) if 3 in numbers_of(request) else one_each(request)

    model = ScriptedModel(fails_at_three)
    with pytest.raises(raised):
        await builder(window_units=2, retries=2).build(numbered(5), Asker(model))
    assert [request.seed for request in model.asked if 3 in numbers_of(request)] == [0, 1, 2]
    assert sorted(asked_for(model.asked)) == [[1, 2], [3, 4], [3, 4], [3, 4], [5]]


async def test_a_window_that_is_refused_costs_itself() -> None:
    def refuses_three(request: Request) -> Any:
        return Rule(error="refused") if 3 in numbers_of(request) else one_each(request)

    model = ScriptedModel(refuses_three)
    built = await builder(window_units=2, retries=1).build(numbered(5), Asker(model))
    assert repaired(built) == [3, 4]
    assert built.rejected == {"the model refused the text": 2}
    assert built.usage.calls == len(model.asked)


async def test_what_can_never_succeed_is_asked_once() -> None:
    model = ScriptedModel(one_each)

    async def refuse(request: Request) -> Any:
        model.asked.append(request)
        raise final("The endpoint refuses the key.")

    model.complete = refuse  # type: ignore[method-assign]
    with pytest.raises(ModelError, match="key"):
        await builder(window_units=1, retries=2).build(numbered(2), Asker(model))
    assert len(model.asked) == 2


@pytest.mark.parametrize("error", ["timeout", "dead", "empty"])
async def test_a_window_that_fails_once_is_answered_later(error: Any) -> None:
    def fails_first(request: Request) -> Any:
        return Rule(error=error) if 3 in numbers_of(request) and not request.seed else one_each(request)

    built, _ = await build(numbered(5), fails_first, window_units=2, retries=1)
    assert built.coverage.before_repair == 1.0


@pytest.mark.parametrize("error", ["timeout", "dead", "empty"])
async def test_a_gap_that_stays_unanswered_becomes_a_fallback(error: Any) -> None:
    """The window had a reply in the first round: what it lacked is repaired."""

    def half(request: Request) -> Any:
        return Rule(error=error) if request.seed else reply(record(numbers_of(request)[0]))

    built, _ = await build(numbered(2), half, window_units=2, retries=2)
    assert kinds(built) == [MARKER, FALLBACK]


@pytest.mark.parametrize("empty", [" \n", Rule(error="empty")])
async def test_an_empty_reply_is_asked_again_with_another_seed(empty: Any) -> None:
    built, asked = await build(
        numbered(1), lambda request: one_each(request) if request.seed else empty, retries=1
    )
    assert [request.seed for request in asked] == [0, 1]
    assert kinds(built) == [MARKER]
    assert built.coverage.before_repair == 1.0


@pytest.mark.parametrize("empty", ["", Rule(error="empty")])
@pytest.mark.parametrize(
    ("first", "left"), [(reply(record(1)), [MARKER, FALLBACK]), ("no", [FALLBACK, FALLBACK])]
)
async def test_an_empty_reply_to_a_gap_leaves_it_to_the_repair(
    empty: Any, first: str, left: list[RecordKind]
) -> None:
    built, _ = await build(
        numbered(2), lambda request: empty if request.seed else first, window_units=2, retries=1
    )
    assert kinds(built) == left

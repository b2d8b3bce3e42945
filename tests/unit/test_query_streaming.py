"""An answer told while it comes: its pieces joined are its text, and the end is what `answer` returns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.errors import EmptyReplyError, ModelTimeoutError
from mrag.models.language_model import Message, Request
from mrag.models.scripted import Rule, ScriptedModel
from mrag.query.blueprints import load_blueprints
from mrag.query.evidence import EvidenceExtractor
from mrag.query.generate import Generator, unmarked
from mrag.query.pipeline import Pipeline
from mrag.query.question import Question
from mrag.query.select import Selector
from mrag.query.streaming import certain, streamed
from mrag.schema import Answer, Pool, StageTrace
from mrag.settings import PlainReader, SaneReader
from tests.query_pool import candidate, pool

FERRY = candidate("The ferry Alma was built in 1962.", "ferry", title="Ferries", values=("Alma: 1962.",))
BARGE = candidate("The barge Runa was built in 1901.", "barge", title="Barges")
SANE = Question("When was the ferry Alma built?", "harbour", reader=SaneReader(w=2, k=1))
PLAIN = Question("When was the ferry Alma built?", "harbour", reader=PlainReader())
ROW = {"source": "S1", "fact": "The ferry Alma was built in 1962."}
REPLY = "Answer: the Alma [1] is of 1962 [1]."


def rules(reply: Any = REPLY, **options: Any) -> list[Rule]:
    return [
        Rule({"selected": [1]}, purpose="select"),
        Rule({"table": {"schema": "ATOMIC", "rows": [ROW]}}, purpose="evidence"),
        Rule(reply, purpose="answer", **options),
    ]


def pipeline(model: ScriptedModel, found: Pool = pool(FERRY, BARGE), streams: bool = True) -> Pipeline:  # noqa: B008
    async def retrieve(question: Question, w: int) -> Pool:
        return found

    generate = Generator(model).generate
    extract = EvidenceExtractor(model, load_blueprints()).extract
    select = Selector(model).select
    return Pipeline(retrieve, select, extract, generate, None, generate if streams else None)


def timeless(answer: Answer) -> Answer:
    return replace(answer, trace=tuple(replace(trace, seconds=0.0) for trace in answer.trace))


@pytest.mark.parametrize("question", [SANE, PLAIN])
@pytest.mark.parametrize("streams", [True, False])
async def test_stages_then_words_then_the_same_answer(question: Question, streams: bool) -> None:
    events = [
        event async for event in pipeline(ScriptedModel(rules()), streams=streams).answer_stream(question)
    ]
    *before, answer = events
    assert isinstance(answer, Answer)
    expected = await pipeline(ScriptedModel(rules())).answer(question)
    assert timeless(answer) == timeless(expected)
    assert [event for event in before if isinstance(event, StageTrace)] == list(answer.trace)
    words = [event for event in before if isinstance(event, str)]
    assert "".join(words) == (answer.text if streams else "")
    assert (len(words) > 2) == streams
    assert before[-1] == answer.trace[-1]


async def test_an_answer_that_needs_no_words_has_none() -> None:
    events = [event async for event in pipeline(ScriptedModel([]), Pool(())).answer_stream(SANE)]
    assert [type(event) for event in events] == [StageTrace, Answer]


async def test_a_generation_that_fails_is_noted_as_ever() -> None:
    events = [event async for event in pipeline(ScriptedModel(rules(None, error="dead"))).answer_stream(SANE)]
    answer = events[-1]
    assert isinstance(answer, Answer)
    assert answer.text == ""
    assert "the answer has no text" in answer.notes[0]


async def test_what_answer_raises_the_stream_raises() -> None:
    late = replace(SANE, timeout_s=0.05)

    async def retrieve(question: Question, w: int) -> Pool:
        await asyncio.sleep(60)
        return Pool(())

    with pytest.raises(ModelTimeoutError):
        _ = [event async for event in Pipeline(retrieve, None, None, None).answer_stream(late)]


async def test_closing_the_stream_ends_the_work() -> None:
    ended = asyncio.Event()

    async def generate(*arguments: Any) -> Any:
        arguments[-1]("the ")
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async def retrieve(question: Question, w: int) -> Pool:
        return pool(FERRY)

    stream = Pipeline(retrieve, None, None, None, None, generate).answer_stream(PLAIN)
    assert isinstance(await anext(stream), StageTrace)
    assert await anext(stream) == "the "
    await stream.aclose()
    assert ended.is_set()


# --------------------------------------------------------------------------- the words

ASKED = Request((Message("user", "Who?"),), 99, "answer")


async def told(reply: str, shown: Callable[[str], str] = str.strip) -> list[str]:
    words: list[str] = []
    model = ScriptedModel([Rule(reply)])
    completion = await streamed(model, ASKED, words.append, shown)
    assert completion == await model.complete(ASKED)
    return words


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ("1962", ["1962"]),
        ("in the year 1962", ["in", " the", " year", " 1962"]),
        ("Alma [1, 2] of Holm [3]", ["Alma", " of", " Holm"]),
        ("[2] in Holm", ["in", " Holm"]),
        ("in the [ Holm", ["in", " the", " [ Holm"]),
        ("in [[1] 2] Holm", ["in", " Holm"]),
        ("the Alma", ["the Alma"]),  # it may have become `the answer is:`
    ],
)
async def test_whole_words_are_told_and_no_marks(reply: str, words: list[str]) -> None:
    assert await told(reply, unmarked) == words


@pytest.mark.parametrize("reply", ["<think>Is it?", "```\n```", "Is it? </think>"])
async def test_thoughts_alone_are_no_reply(reply: str) -> None:
    with pytest.raises(EmptyReplyError):
        await told(reply)


PARTS = [
    "the",
    "Alma",
    "[1]",
    "[",
    "]",
    "[[1] 2]",
    "[1, 2]",
    "Answer:",
    "the final answer is:",
    "\n",
    ",",
    "is",
    "1962.",
    "``",
]


@given(st.lists(st.sampled_from(PARTS), max_size=9).map(" ".join))
def test_what_is_told_of_a_beginning_stays(reply: str) -> None:
    for end in range(len(reply)):
        assert unmarked(reply).startswith(unmarked(certain(reply[:end])))

"""Replies are kept by request: asked once, found again, and no engine is opened for what is there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from mrag.errors import EmptyReplyError, ModelError
from mrag.evaluation.kept_replies import KeepingModel, KeptReplies, clocked
from mrag.models.language_model import LanguageModel, Message, Request
from mrag.models.request_key import request_key
from mrag.models.scripted import Rule, ScriptedModel

REQUEST = Request((Message("user", "Which buoy?"),), 10, "select", {"type": "object"})
LABELS = ("A", "B")


class Engine:
    """Opens scripted models, and counts how often."""

    def __init__(self, *rules: Rule) -> None:
        self.rules = rules
        self.opened: list[ScriptedModel] = []

    async def __call__(self) -> LanguageModel:
        self.opened.append(ScriptedModel(self.rules))
        return self.opened[-1]

    @property
    def asked(self) -> list[Request]:
        return [request for model in self.opened for request in model.asked]


def model(engine: Callable[[], Awaitable[LanguageModel]], folder: Path | None) -> KeepingModel:
    return KeepingModel(ScriptedModel(()), engine, KeptReplies(folder) if folder else None)


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_a_reply_comes_back_whole_without_an_engine(tmp_path: Path) -> None:
    first, second = Engine(Rule("The \ud800 buoy \x00 «five»", finish="length")), Engine()
    asked = model(first, tmp_path)
    reply = await asked.complete(REQUEST)
    again = model(second, tmp_path)
    assert await again.complete(replace(REQUEST, purpose="other", timeout_s=1.0)) == reply
    assert reply.usage.calls == 1
    assert (asked.asked, again.asked, second.opened) == (1, 0, [])
    assert "".join([piece async for piece in again.stream(REQUEST)]) == reply.text


@pytest.mark.parametrize(
    "other",
    [
        {"messages": (Message("system", "Which buoy?"),)},
        {"max_tokens": 11},
        {"schema": None},
        {"temperature": 0.1},
        {"seed": 1},
    ],
)
async def test_another_request_is_another_reply(tmp_path: Path, other: dict[str, Any]) -> None:
    engine = Engine(Rule("five"))
    for request in (REQUEST, replace(REQUEST, **other), REQUEST):
        await model(engine, tmp_path).complete(request)
    assert len(engine.asked) == 2


async def test_another_model_is_another_reply(tmp_path: Path) -> None:
    engine = Engine(Rule("five"))
    for name in ("one", "other"):
        counting = ScriptedModel((), name=name)
        await KeepingModel(counting, engine, KeptReplies(tmp_path)).complete(REQUEST)
    assert len(engine.asked) == 2


async def test_choices_are_kept_by_their_labels(tmp_path: Path) -> None:
    engine = Engine(Rule({"A": -0.5, "B": float("-inf")}))
    chosen = [await model(engine, tmp_path).choose(REQUEST, LABELS) for _ in range(2)]
    assert [choice.logprobs for choice in chosen] == [{"A": -0.5, "B": float("-inf")}] * 2
    assert chosen[0].usage == chosen[1].usage
    assert list(chosen[1].logprobs) == ["A", "B"]
    assert len(engine.asked) == 1
    await model(Engine(Rule("A")), tmp_path).choose(REQUEST, ("A", "B", "C"))
    await model(Engine(Rule("A and B")), tmp_path).complete(REQUEST)
    assert len(files(tmp_path)) == 3


async def test_the_same_request_at_once_is_asked_once(tmp_path: Path) -> None:
    engine = Engine(Rule("five", delay_s=0.01))
    asking = model(engine, tmp_path)
    replies = await asyncio.gather(*(asking.complete(REQUEST) for _ in range(5)))
    assert (len(engine.opened), len(engine.asked), len(set(map(id, replies)))) == (1, 1, 5)
    assert len({reply.text for reply in replies}) == 1


async def test_who_gives_up_takes_nothing_from_the_others(tmp_path: Path) -> None:
    asking = model(Engine(Rule("five", delay_s=0.05)), tmp_path)
    first, second = (asyncio.create_task(asking.complete(REQUEST)) for _ in range(2))
    await asyncio.sleep(0.01)
    first.cancel()
    assert (await second).text == "five"
    assert first.cancelled()
    assert len(files(tmp_path)) == 1


async def test_a_failure_is_not_kept(tmp_path: Path) -> None:
    engine = Engine(Rule(error="empty", times=1), Rule("five"))
    asking = model(engine, tmp_path)
    with pytest.raises(EmptyReplyError):
        await asking.complete(REQUEST)
    assert files(tmp_path) == []
    assert (await asking.complete(REQUEST)).text == "five"


@pytest.mark.parametrize(
    "damage", [b"", b"[]", b'{"text": "x"}', b"\xff", b'{"text": "x", "usage": {}, "finish": "stop"}']
)
async def test_a_damaged_reply_is_asked_again(tmp_path: Path, damage: bytes) -> None:
    engine = Engine(Rule("five"))
    await model(engine, tmp_path).complete(REQUEST)
    files(tmp_path)[0].write_bytes(damage)
    assert (await model(engine, tmp_path).complete(REQUEST)).text == "five"
    assert len(engine.asked) == 2


async def test_without_a_folder_nothing_is_kept() -> None:
    engine = Engine(Rule("five"))
    asking = model(engine, None)
    assert [(await asking.complete(REQUEST)).text for _ in range(2)] == ["five"] * 2
    assert asking.asked == 2


async def test_an_engine_that_does_not_open_is_tried_once() -> None:
    tries = []

    async def refusing() -> LanguageModel:
        tries.append(1)
        raise ModelError("no memory")

    asking = model(refusing, None)
    for _ in range(2):
        with pytest.raises(ModelError, match="no memory"):
            await asking.complete(REQUEST)
    assert (len(tries), str(asking.refused)) == (1, "no memory")


async def test_seconds_are_those_of_the_first_time(tmp_path: Path) -> None:
    asking = model(Engine(Rule("five", delay_s=0.01)), tmp_path)
    with clocked() as first:
        await asking.complete(REQUEST)
    with clocked() as second:
        await model(Engine(), tmp_path).complete(REQUEST)
    assert first.seconds == second.seconds > 0
    assert (first.kept, second.kept) == (False, True)


async def test_seconds_of_replies_that_come_together_are_the_slowest_ones(tmp_path: Path) -> None:
    requests = [replace(REQUEST, seed=seed) for seed in range(4)]
    asking = model(Engine(Rule("five")), tmp_path)
    for request, seconds in zip(requests, (2.0, 3.0, 5.0, 7.0), strict=True):
        reply = asdict(await asking.complete(request))
        key = request_key(request, asking.name)
        KeptReplies(tmp_path).put(key, {**reply, "seconds": seconds})
    with clocked() as clock:
        await asking.complete(requests[0])
        await asyncio.gather(*(asking.complete(request) for request in requests[1:3]))
        await asking.complete(requests[3])
    assert clock.seconds == 2.0 + 5.0 + 7.0


async def test_closing_ends_what_is_under_way() -> None:
    engine = Engine(Rule("five", delay_s=60))
    asking = model(engine, None)
    waiting = asyncio.create_task(asking.complete(REQUEST))
    await asyncio.sleep(0.01)
    await asking.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting

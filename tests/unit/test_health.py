"""Whether the service lives is told however busy it is; whether it is ready, by what a question asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from mrag.errors import EngineDeadError, MragError, NotFoundError
from mrag.models.scripted import Rule, ScriptedModel
from mrag.query.generate import Generator
from mrag.schema import Pool
from mrag.settings import parse_settings
from serve import readiness
from serve.calls import StageDownError
from serve.readiness import Readiness
from tests.served import Stages, keyring, served

QUESTION = {"question": "Who?"}


class Held(Stages):
    """Stages that find nothing before they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self.inside = self.most = 0

    async def retrieve(self, question: Any, w: int) -> Pool:
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            await self.go.wait()
            return await super().retrieve(question, w)
        finally:
            self.inside -= 1


def http(stages: Stages, timeout_s: float = 300, **options: Any) -> httpx.AsyncClient:
    gateway = {"max_ongoing": 2, "max_queued": 3}
    settings = parse_settings({"serve": {"gateway": gateway, "timeout_s": timeout_s}})
    transport = httpx.ASGITransport(app=served(stages, settings, **options))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost:8000")


async def until(holds: Any) -> None:
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110 (what it waits for has no event)
            await asyncio.sleep(0.001)


async def crowd(
    client: httpx.AsyncClient, stages: Held, **headers: str
) -> list[asyncio.Task[httpx.Response]]:
    """As many as there is room for: two are worked on, three wait."""
    asked = [
        asyncio.create_task(client.post("/v1/retrieve", json=QUESTION, headers=headers)) for _ in range(5)
    ]
    await until(lambda: stages.inside == 2)
    await asyncio.sleep(0.05)
    return asked


async def test_a_busy_service_lives_and_turns_away_what_it_has_no_room_for() -> None:
    stages = Held()
    async with http(stages) as client:
        asked = await crowd(client, stages)
        refused = [await client.post(path, json=QUESTION) for path in ("/v1/retrieve", "/v1/query")]
        chat = await client.post("/v1/chat/completions", json={})
        health = await client.get("/healthz")
        stages.go.set()
        answered = [reply.status_code for reply in await asyncio.gather(*asked)]
        again = await client.post("/v1/retrieve", json=QUESTION)
    assert (health.status_code, health.json()["status"]) == (200, "ok")
    assert [reply.status_code for reply in refused] == [503, 503]
    assert refused[0].json()["error"]["code"] == "unavailable"
    assert int(refused[0].headers["retry-after"]) > 0
    assert (chat.status_code, chat.json()["error"]["type"]) == (503, "server_error")
    assert (answered, stages.most, again.status_code) == ([200] * 5, 2, 200)


async def test_who_leaves_makes_room() -> None:
    stages = Held()
    async with http(stages) as client:
        asked = await crowd(client, stages)
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        await until(lambda: stages.inside == 0)
        stages.go.set()
        assert (await client.post("/v1/retrieve", json=QUESTION)).status_code == 200


async def test_who_has_no_token_takes_no_place_and_none_of_his_body_is_read() -> None:
    stages = Held()
    sent = list[int]()

    async def body() -> AsyncIterator[bytes]:
        sent.append(1)
        yield b"{"

    async with http(stages, keys=keyring("t")) as client:
        asked = await crowd(client, stages, Authorization="Bearer t")
        strangers = [
            await client.post(path, content=body(), headers=headers)
            for path in ("/v1/retrieve", "/v1/chat/completions", "/v1/jobs", "/v1/nothing", "/mcp")
            for headers in ({}, {"Authorization": "Bearer u"}, {"Authorization": "Basic t"})
        ]
        stages.go.set()
        assert [reply.status_code for reply in await asyncio.gather(*asked)] == [200] * 5
    assert {reply.status_code for reply in strangers} == {401}
    assert {reply.headers["www-authenticate"] for reply in strangers} == {"Bearer"}
    assert all("token" in reply.text and reply.headers["x-request-id"] for reply in strangers)
    assert sent == []


async def test_what_was_waited_for_a_turn_is_gone_from_the_deadline() -> None:
    stages = Held()
    async with http(stages) as client:
        asked = [asyncio.create_task(client.post("/v1/retrieve", json=QUESTION)) for _ in range(3)]
        await until(lambda: stages.inside == 2)
        await asyncio.sleep(0.2)
        stages.go.set()
        await asyncio.gather(*asked)
    first, _, last = (question.timeout_s or 0 for question in stages.asked)
    assert 299.9 < first <= 300
    assert last < first - 0.15


async def test_who_waits_is_told_at_his_deadline() -> None:
    stages = Held()
    async with http(stages, timeout_s=0.4) as client:
        began = asyncio.get_running_loop().time()
        asked = [asyncio.create_task(client.post("/v1/retrieve", json=QUESTION)) for _ in range(5)]
        statuses = sorted([reply.status_code for reply in await asyncio.gather(*asked)])
        seconds = asyncio.get_running_loop().time() - began
        stages.go.set()
        assert (await client.post("/v1/retrieve", json=QUESTION)).status_code == 200
    # Two are worked on until their deadline; of those that got their turn then nothing was left.
    assert set(statuses) <= {503, 504}
    assert statuses.count(504) >= 2
    assert seconds < 0.8


async def test_ready_is_who_finds_and_whose_model_writes() -> None:
    stages, seconds = Stages(), list[float]()

    async def probe(timeout_s: float) -> None:
        seconds.append(timeout_s)

    async with http(stages, probe=probe) as client:
        replies = [await client.get("/readyz") for _ in range(3)]
    assert [reply.json() for reply in replies] == [{"status": "ready"}] * 3
    assert seconds == [readiness.TIMEOUT_S]
    assert [question.collection for question in stages.asked] == ["default"]


@pytest.mark.parametrize(
    ("found", "probed", "status"),
    [
        (NotFoundError("collection", "There is none."), None, 404),
        (None, StageDownError("A stage of the service is restarting: try again."), 503),
        (None, EngineDeadError("The engine has stopped."), 502),
    ],
)
async def test_what_keeps_questions_from_being_answered_is_told(
    found: MragError | None, probed: MragError | None, status: int
) -> None:
    async def probe(timeout_s: float) -> None:
        if probed:
            raise probed

    async with http(Stages(found), probe=probe) as client:
        assert (await client.get("/readyz")).status_code == status
        assert (await client.get("/healthz")).status_code == 200


async def test_probes_that_come_together_share_one_look_and_what_is_known_ages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks, go = list[float](), asyncio.Event()

    async def look(timeout_s: float) -> None:
        looks.append(timeout_s)
        await go.wait()

    async def probe(timeout_s: float) -> None:
        return None

    ready = Readiness(look, probe)
    waiting = [asyncio.create_task(ready()) for _ in range(5)]
    await until(lambda: bool(looks))
    waiting[0].cancel()  # one who leaves ends it for no other
    go.set()
    await asyncio.gather(*waiting[1:])
    await ready()
    assert len(looks) == 1
    monkeypatch.setattr(readiness, "KEPT_S", 0.0)
    ready = Readiness(look, probe)
    await ready()
    await ready()
    assert len(looks) == 3


async def test_the_model_is_asked_for_one_token_and_may_think() -> None:
    model = ScriptedModel([Rule("Yes", times=1), Rule(error="empty", times=1), Rule(error="dead")])
    generator = Generator(model)
    await generator.ready(3.0)
    await generator.ready(3.0)
    with pytest.raises(EngineDeadError):
        await generator.ready(3.0)
    assert {(request.max_tokens, request.timeout_s) for request in model.asked} == {(1, 3.0)}

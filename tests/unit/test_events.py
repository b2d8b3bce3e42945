"""An answer as server-sent events, over a pipeline of this process."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from mrag.errors import ModelError, MragError, NotFoundError
from mrag.models.scripted import Rule, ScriptedModel
from mrag.query.generate import Generator
from mrag.query.pipeline import Pipeline
from mrag.query.question import Question
from mrag.schema import Pool
from mrag.settings import Settings
from serve.access import Keyring
from serve.routes import create_api
from tests.query_pool import candidate, pool
from tests.served import Shelves

FERRY = candidate("The ferry Alma was built in 1962.", "ferry", title="Ferries", values=("Alma: 1962.",))
BODY = {"question": "When was Alma built?", "reader": "plain"}


async def streamed(error: Exception | None = None, down: Exception | None = None) -> httpx.Response:
    model = ScriptedModel([Rule("The Alma was built in 1962.", purpose="answer")])

    async def retrieve(question: Question, w: int) -> Pool:
        if error:
            raise error
        return pool(FERRY)

    async def generate(*arguments: Any) -> Any:
        if down:
            raise down
        return await Generator(model).generate(*arguments)

    pipeline = Pipeline(retrieve, None, None, generate, None, generate)
    api = create_api(pipeline, Shelves(), Settings(), Keyring())
    transport = httpx.ASGITransport(app=api, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8000") as http:
        plain = (await http.post("/v1/query", json=BODY)).json() if not (error or down) else None
        reply = await http.post("/v1/query", json={**BODY, "stream": True})
    reply.extensions["plain"] = plain
    return reply


def events(reply: httpx.Response) -> list[tuple[str, Any]]:
    found = []
    for block in reply.text.removesuffix("\n\n").split("\n\n"):
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def timeless(answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "trace": [{**stage, "seconds": 0.0} for stage in answer["trace"]]}


async def test_stages_and_text_come_first_and_the_end_is_what_is_answered_unstreamed() -> None:
    reply = await streamed()
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/event-stream")
    told = events(reply)
    assert [name for name, _ in told if name != "text"] == ["stage", "stage", "answer"]
    assert "".join(data["text"] for name, data in told if name == "text") == "The Alma was built in 1962."
    assert told[0][1]["stage"] == "retrieve"
    assert timeless(told[-1][1]) == timeless(reply.extensions["plain"])


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (NotFoundError("collection", "There is none."), 404, "not_found"),
        (ModelError("It is down."), 502, "model"),
    ],
)
async def test_what_fails_before_the_first_event_is_an_error_like_any_other(
    error: MragError, status: int, code: str
) -> None:
    reply = await streamed(error)
    assert reply.status_code == status
    assert reply.json()["error"]["code"] == code


async def test_what_fails_later_is_the_last_event() -> None:
    told = events(await streamed(down=NotFoundError("generation", "It is gone.")))
    assert [name for name, _ in told] == ["stage", "error"]
    assert told[-1][1]["error"] == {"code": "not_found", "message": "It is gone.", "field": "generation"}


async def test_a_fault_of_the_service_is_told_without_its_words() -> None:
    told = events(await streamed(down=RuntimeError("secret")))
    assert [name for name, _ in told] == ["stage", "error"]
    assert told[-1][1]["error"]["code"] == "internal"
    assert "secret" not in told[-1][1]["error"]["message"]


async def test_a_generator_that_is_down_is_told_and_noted() -> None:
    told = events(await streamed(down=ModelError("It is down.")))
    assert [name for name, _ in told] == ["stage", "stage", "answer"]
    assert any("generate failed" in note for note in told[-1][1]["notes"])

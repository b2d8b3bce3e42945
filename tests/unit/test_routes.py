"""The HTTP API over a pipeline of this process: no Ray, no engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from ray.exceptions import RayTaskError

from mrag.collection.filter_forms import parse_filter
from mrag.errors import (
    CollectionError,
    DocumentError,
    EngineDeadError,
    InputError,
    ModelError,
    ModelTimeoutError,
    MragError,
    NotFoundError,
    SettingsError,
)
from mrag.query.turns import Turn
from mrag.settings import SaneReader, parse_settings
from serve.access import token_of
from serve.bodies import QueryBody
from serve.calls import StageDownError, plain
from serve.limits import MAX_BODY_BYTES
from tests.served import Stages, client


async def post(path: str, body: Any, **options: Any) -> httpx.Response:
    async with client(**options) as http:
        return await http.post(path, json=body)


def deep(lists: int) -> list[Any]:
    """Lists within lists."""
    found: list[Any] = []
    for _ in range(lists):
        found = [found]
    return found


async def test_an_answer_carries_text_evidence_sources_and_trace() -> None:
    reply = await post("/v1/query", {"question": "Who built it?"})
    answer = reply.json()
    assert reply.status_code == 200
    assert answer["text"] == "Ada"
    assert answer["evidence"]["rows"] == [
        {
            "cells": {"fact": "Ada built it"},
            "quote": "Ada built it.",
            "verdict": "verified",
            "source": {"document_id": "a.md", "title": "A", "units": [1], "pages": [], "date": "2024-03-01"},
            "derivation": None,
        }
    ]
    assert answer["sources"] == [
        {"document_id": "a.md", "title": "A", "units": [1], "pages": [], "date": "2024-03-01"}
    ]
    assert [stage["stage"] for stage in answer["trace"]] == ["retrieve", "select", "extract", "generate"]
    assert (answer["generation"], answer["citations"]) == (7, [])


async def test_a_pool_shows_key_scores_records_and_unit_offsets() -> None:
    pool = (await post("/v1/retrieve", {"question": "Who?", "w": 3})).json()
    assert (pool["generation"], pool["notes"]) == (7, [])
    assert pool["candidates"] == [
        {
            "document": {
                "id": "a.md",
                "title": "A",
                "metadata": {"date": "2024-03-01", "tags": ["boat"]},
            },
            "units": [
                {
                    "document_id": "a.md",
                    "number": 1,
                    "start": 0,
                    "end": 14,
                    "text": "Ada built it.",
                    "section": ["Makers"],
                    "page": None,
                }
            ],
            "records": [
                {
                    "id": "r1",
                    "document_id": "a.md",
                    "keys": ["Who built it?"],
                    "value": "Ada built it.",
                    "pointers": [1],
                    "kind": "marker",
                }
            ],
            "key": "Who built it?",
            "score": 0.5,
            "scores": {"dense": 0.5},
            "ranks": [1],
        }
    ]


async def test_options_of_the_request_win_over_the_settings() -> None:
    stages = Stages()
    settings = parse_settings({"method": "ours", "collection": {"name": "house"}, "serve": {"timeout_s": 9}})
    await post("/v1/query", {"question": "Who?"}, stages=stages, settings=settings)
    body = {"question": "Who?", "collection": "other", "reader": "plain", "budget_tokens": 128}
    body |= {"retrieval": "keys+units"}
    await post("/v1/query", body, stages=stages, settings=settings)
    first, second = stages.asked
    assert (first.collection, first.reader.name) == ("house", "sane")
    assert first.timeout_s == pytest.approx(9, abs=1)
    assert (second.collection, second.reader.name, second.reader.budget_tokens) == ("other", "plain", 128)
    assert (first.retrieval.name, second.retrieval.name) == ("keys", "keys+units")


async def test_a_request_chooses_the_form_of_selection() -> None:
    stages = Stages()
    await post("/v1/query", {"question": "Who?", "select": "each"}, stages=stages)
    await post("/v1/query", {"question": "Who?"}, stages=stages)
    assert [question.reader.select for question in stages.asked] == ["each", "likelihood"]  # type: ignore[union-attr]


async def test_every_part_of_the_reader_can_be_chosen_by_a_request() -> None:
    stages = Stages()
    options = {"quoting": "copied", "read": "values", "blueprints": False, "derive": False}
    options |= {"citations": "model", "no_evidence": "abstain", "neighbours": 2, "max_rows": 9}
    await post("/v1/query", {"question": "Who?", **options}, stages=stages)
    await post("/v1/query", {"question": "Who?", "extract": False}, stages=stages)
    assert [question.reader for question in stages.asked] == [
        SaneReader(select="likelihood", **options),  # type: ignore[arg-type]
        SaneReader(select="likelihood", max_rows=6, extract=False),
    ]
    chosen = set(QueryBody.model_fields) & set(SaneReader.model_fields)
    assert chosen >= {*options, "extract", "w", "k", "budget_tokens"}


async def test_a_request_for_keys_alone_wins_over_units_in_the_settings() -> None:
    stages = Stages()
    await post("/v1/query", {"question": "Who?", "retrieval": "keys"}, stages=stages)
    await post("/v1/retrieve", {"question": "Who?"}, stages=stages)
    assert [question.retrieval.name for question in stages.asked] == ["keys", "keys+units"]


@pytest.mark.parametrize("path", ["/v1/query", "/v1/retrieve", "/v1/evidence"])
async def test_a_filter_reaches_the_search(path: str) -> None:
    stages = Stages()
    body = {"question": "Who?", "filter": {"tags": "boat", "date": {"gte": "2024-01-01"}}}
    assert (await post(path, body, stages=stages)).status_code == 200
    assert stages.asked[0].filter == parse_filter(body["filter"])


@pytest.mark.parametrize("path", ["/v1/query", "/v1/retrieve", "/v1/evidence"])
async def test_turns_reach_the_search(path: str) -> None:
    stages = Stages()
    turns = [{"question": "Which?"}, {"question": "Who?", "answer": "Ada", "titles": ["A"]}]
    assert (await post(path, {"question": "Why?", "turns": turns}, stages=stages)).status_code == 200
    assert stages.asked[0].turns == (Turn("Which?"), Turn("Who?", "Ada", ("A",)))


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"question": "Who?", "filter": {"date": {"after": "2024"}}}, 400, "filter"),
        ({"question": "Who?", "filter": {"date": {"gte": "soon"}}}, 400, "filter"),
        ({"question": "Who?", "filter": {"date": None}}, 400, "filter"),
        ({"question": "Who?", "filter": {str(n): n for n in range(17)}}, 400, "filter"),
        ({"question": "Who?", "filter": "date>2024"}, 422, "filter"),
        ({"question": "Who?", "filter": {"date": deep(600)}}, 400, "filter"),
        ({"question": "Who?", "filter": {"date": {"in": deep(600)}}}, 400, "filter"),
        ({"question": "  "}, 400, "question"),
        ({"question": "Who?", "reader": "sane", "k": 9, "w": 4}, 400, "k"),
        ({"question": "Who?", "budget_tokens": 0}, 400, "budget_tokens"),
        ({"question": "Who?", "reader": "plain", "w": 3}, 400, "w"),
        ({"question": "Who?", "reader": "plain", "select": "each"}, 400, "select"),
        ({"question": "Who?", "select": "all"}, 422, "select"),
        ({"question": "Who?", "reader": "plain", "quoting": "copied"}, 400, "quoting"),
        ({"question": "Who?", "extract": False, "no_evidence": "abstain"}, 400, "no_evidence"),
        ({"question": "Who?", "neighbours": 11}, 400, "neighbours"),
        ({"question": "Who?", "neighbours": -1}, 400, "neighbours"),
        ({"question": "Who?", "read": "keys"}, 422, "read"),
        ({"question": "Who?", "blueprints_folder": "/etc"}, 422, "blueprints_folder"),
        ({"question": "Who?", "reader": "magic"}, 422, "reader"),
        ({"question": "Who?", "retrieval": "magic"}, 422, "retrieval"),
        ({"question": "Who?", "surprise": 1}, 422, "surprise"),
        ({"question": "Who?", "w": 1001}, 422, "w"),
        ({"question": "Who?", "k": 1001}, 422, "k"),
        ({"question": "Who?", "budget_tokens": 1_000_001}, 422, "budget_tokens"),
        ({"question": "why " * 6000}, 400, "question"),
        ({"question": 5}, 422, "question"),
        ({}, 422, "question"),
        ([], 422, None),
    ],
)
async def test_bad_input_is_one_sentence_with_its_field(body: Any, status: int, field: str | None) -> None:
    reply = await post("/v1/query", body)
    error = reply.json()["error"]
    assert (reply.status_code, error["field"]) == (status, field)
    assert error["message"].endswith(".")
    assert "\n" not in error["message"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (r'{"question": "Who \ud83d?"}', 200),
        (r'{"question": "Who?", "collection": "\ud83d"}', 400),
        (r'{"question": "Who?", "\ud83d": 1}', 422),
    ],
)
async def test_half_a_character_is_no_fault_of_the_service(body: str, status: int) -> None:
    async with client() as http:
        reply = await http.post("/v1/query", content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code == status


async def test_a_body_that_is_not_json_is_refused() -> None:
    async with client() as http:
        reply = await http.post("/v1/query", content=b"{", headers={"Content-Type": "application/json"})
    assert reply.status_code == 422
    assert reply.json()["error"]["code"] == "invalid_body"


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (NotFoundError("document", "There is no document x."), 404, "not_found"),
        (InputError("retrieval", "Nothing but keys is searched."), 400, "bad_input"),
        (ModelTimeoutError("Too late."), 504, "timeout"),
        (ModelError("No reply."), 502, "model"),
        (StageDownError("Restarting."), 503, "unavailable"),
    ],
)
async def test_errors_of_the_graph_have_their_status(error: MragError, status: int, code: str) -> None:
    reply = await post("/v1/query", {"question": "Who?"}, stages=Stages(error))
    assert reply.status_code == status
    assert reply.json()["error"]["code"] == code
    assert reply.json()["error"]["message"] == str(error)
    assert ("Retry-After" in reply.headers) is (status == 503)


async def test_unknown_routes_and_methods_have_the_same_shape() -> None:
    async with client() as http:
        missing, wrong = await http.get("/nothing"), await http.get("/v1/query")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "not_found")
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "method_not_allowed")


async def test_a_token_is_asked_of_everyone_but_the_health_check() -> None:
    body = {"question": "Who?"}
    async with client(token="s3cret", caller="10.0.0.9") as http:
        health = await http.get("/healthz")
        replies = [
            await http.post("/v1/query", json=body, headers=headers)
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer s3cret"})
        ]
    assert health.json()["status"] == "ok"
    assert [reply.status_code for reply in replies] == [401, 401, 200]
    assert "s3cret" not in replies[1].text


@pytest.mark.parametrize(
    ("token", "refusal"), [("", "empty"), ("pässword", "ASCII"), ("a\nb", "ASCII"), ("s3cret", None)]
)
def test_a_token_that_no_header_can_carry_is_refused(
    monkeypatch: pytest.MonkeyPatch, token: str, refusal: str | None
) -> None:
    settings = parse_settings({"serve": {"token_env": "A_TOKEN_OF_A_TEST"}})
    monkeypatch.setenv("A_TOKEN_OF_A_TEST", token)
    if refusal is None:
        assert token_of(settings) == token
        return
    with pytest.raises(SettingsError, match=refusal):
        token_of(settings)


async def test_without_a_token_other_machines_are_refused() -> None:
    assert (await post("/v1/query", {"question": "Who?"}, caller="10.0.0.9")).status_code == 403
    assert (await post("/v1/query", {"question": "Who?"}, caller="::1")).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "localhost"}, 200),
        ({"Host": "LOCALHOST:8000"}, 200),
        ({"Host": "[::1]:8000"}, 200),
        ({"Host": "127.0.0.1:8000"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": "localhost.evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example:8000"}, 403),
        ({"Host": ""}, 403),
        ({"X-Forwarded-For": "127.0.0.1"}, 403),
        ({"Forwarded": "for=127.0.0.1"}, 403),
    ],
)
async def test_without_a_token_neither_a_proxy_nor_another_name_is_answered(
    headers: dict[str, str], status: int
) -> None:
    body = {"question": "Who?"}
    async with client() as http:
        reply = await http.post("/v1/query", json=body, headers=headers)
    assert reply.status_code == status
    async with client(token="s3cret") as http:
        reply = await http.post("/v1/query", json=body, headers={**headers, "Authorization": "Bearer s3cret"})
    assert reply.status_code == 200


@pytest.mark.parametrize("declared", [True, False])
async def test_a_body_beyond_the_limit_is_not_read(declared: bool) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b" " * 50_000

    content = b" " * (MAX_BODY_BYTES + 1) if declared else pieces()
    async with client() as http:
        reply = await http.post("/v1/query", content=content)
    assert (reply.status_code, reply.json()["error"]["code"]) == (413, "too_large")


async def test_half_a_body_gives_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def half() -> AsyncIterator[bytes]:
        yield b'{"question": '
        await asyncio.Event().wait()

    monkeypatch.setattr("serve.limits.BODY_TIMEOUT_S", 0.05)
    async with client() as http:
        reply = await http.post("/v1/query", content=half())
    assert (reply.status_code, reply.json()["error"]["code"]) == (408, "timeout")


async def test_the_openapi_page_describes_requests_replies_and_errors() -> None:
    async with client() as http:
        document = (await http.get("/openapi.json")).json()
    operation = document["paths"]["/v1/query"]["post"]
    schemas = document["components"]["schemas"]
    assert operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].endswith("/Answer")
    assert operation["responses"]["400"]["content"]["application/json"]["schema"]["$ref"].endswith(
        "/ErrorBody"
    )
    assert schemas["QueryBody"]["properties"]["budget_tokens"]["description"]
    assert set(schemas["Answer"]["properties"]) >= {"text", "evidence", "sources", "trace", "notes"}


async def test_what_is_damaged_is_told_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    error = CollectionError("/srv/secret/manifests/000001.json is damaged: restore it.")
    reply = await post("/v1/query", {"question": "Who?"}, stages=Stages(error))
    assert (reply.status_code, reply.json()["error"]["code"]) == (500, "internal")
    assert "/srv" not in reply.text
    assert "/srv/secret/manifests" in caplog.text


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (SettingsError("/srv/secret/settings.yaml is no YAML."), 500, "SettingsError"),
        (DocumentError("/srv/secret/a.pdf is no PDF."), 500, "DocumentError"),
        (ModelError("The model in /srv/secret has no chat template."), 502, "has no chat template"),
        (ModelTimeoutError("http://srv/secret:80/v1 is slow."), 504, "is slow"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/retrieve", "/v1/query", "/v1/chat/completions"])
async def test_no_error_names_a_place_on_the_server(
    error: MragError, status: int, told: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    body: dict[str, Any] = {"question": "Who?"}
    if "chat" in path:
        body = {"model": "default:sane", "messages": [{"role": "user", "content": "Who?"}]}
    reply = await post(path, body, stages=Stages(error))
    assert reply.status_code == status
    assert told in reply.json()["error"]["message"]
    assert "srv" not in reply.text
    assert "srv/secret" in caplog.text


def test_what_a_stage_says_in_an_answers_notes_names_no_place_either(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cause = EngineDeadError("The engine in /srv/secret has stopped: restart it.")
    told = plain(RayTaskError("complete", "a traceback", cause).make_dual_exception_instance())
    assert isinstance(told, EngineDeadError)
    assert "has stopped: restart it." in str(told)
    assert "/srv" not in str(told)
    assert "/srv/secret" in caplog.text


async def test_nobody_is_told_where_the_collections_lie() -> None:
    error = NotFoundError("collection", "There is no collection x in /srv/secret: index one first.")
    reply = await post("/v1/query", {"question": "Who?"}, stages=Stages(error))
    assert (reply.status_code, reply.json()["error"]["field"]) == (404, "collection")
    assert "/srv" not in reply.text

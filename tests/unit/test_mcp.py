"""The tools of an agent, asked by the protocol's own client: a true server, a scripted model."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from serve.access import Key
from serve.request_log import LOGGER
from tests.harbour import ALMA, ANSWER, FERRY, Harbour
from tests.served import keyring, listening

QUESTION = "When was Alma built?"


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with listening(Harbour(tmp_path).api) as address:
        yield f"{address}/mcp"


@asynccontextmanager
async def bearer(url: str, token: str, **options: Any) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(url, http_client=http), **options) as client,
    ):
        yield client


async def test_the_tools_are_described(url: str) -> None:
    async with Client(url) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == {"list_collections", "search", "ask", "open_document"}
    for tool in tools.values():
        assert tool.description
        assert "ctx" not in tool.input_schema.get("properties", {})
    assert tools["ask"].input_schema["required"] == ["question"]


async def test_nobody_may_hold_a_place_by_listening(url: str) -> None:
    async with Client(url) as client, asyncio.timeout(5):
        with pytest.raises(MCPError):
            async with client.listen(tools_list_changed=True):
                pass


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_agent_searches_asks_and_opens_what_was_cited(url: str, mode: Any) -> None:
    async with Client(url, mode=mode) as client:
        found = (await client.call_tool("search", {"question": QUESTION, "limit": 1})).structured_content
        answered = (await client.call_tool("ask", {"question": QUESTION})).structured_content
        place = answered["evidence"][0]["place"]
        call = {"document_id": place["document_id"]}
        opened = (await client.call_tool("open_document", call)).structured_content
    (passage,) = found["passages"]
    assert (passage["text"], passage["place"]["document_id"]) == (ALMA, FERRY)
    assert (answered["answer"], answered["citations"]) == (ANSWER, [1])
    assert (answered["evidence"][0]["verdict"], place["units"]) == ("verified", [1])
    assert opened["units"] == [{"number": 1, "section": ["Top", "§1"], "page": None, "text": ALMA}]
    assert (opened["units_in_all"], opened["next_unit"]) == (1, None)


async def test_collections_are_listed_and_named(url: str) -> None:
    async with Client(url) as client:
        listed = (await client.call_tool("list_collections", {})).structured_content
        call = {"question": "How long?", "collection": "quay", "reader": "plain"}
        answered = (await client.call_tool("ask", call)).structured_content
    assert listed["collections"] == [
        {"name": "harbour", "documents": 2, "default": True},
        {"name": "quay", "documents": 1, "default": False},
    ]
    assert [source["document_id"] for source in answered["sources"]] == ["quay"]


@pytest.mark.parametrize(
    ("tool", "call", "said"),
    [
        ("open_document", {"document_id": "nowhere"}, "has no document 'nowhere'"),
        ("search", {"question": "Who?", "collection": "nowhere"}, "no such collection"),
        ("ask", {"question": " "}, "write at least one word"),
        ("search", {"question": "Who?", "limit": 0}, "limit"),
    ],
)
async def test_what_can_not_be_done_is_told_to_the_agent(
    url: str, tool: str, call: dict[str, Any], said: str
) -> None:
    async with Client(url) as client:
        result = await client.call_tool(tool, call)
    assert result.is_error
    assert said in result.content[0].text  # type: ignore[union-attr]


async def test_a_token_opens_what_it_may_and_nothing_else(tmp_path: Path) -> None:
    keys = keyring(q=Key("q", frozenset({"read"}), frozenset({"quay"})), n=Key("n", frozenset({"write"})))
    with listening(Harbour(tmp_path, keys=keys).api) as address:
        url = f"{address}/mcp"
        async with bearer(url, "q") as client:
            listed = (await client.call_tool("list_collections", {})).structured_content
            call = {"document_id": FERRY, "collection": "harbour"}
            refused = await client.call_tool("open_document", call)
        async with httpx.AsyncClient() as http:
            sent = [{}, *({"Authorization": word} for word in ("Bearer x", "Basic q", "Bearer n"))]
            statuses = [(await http.post(url, json={}, headers=headers)).status_code for headers in sent]
    assert [one["name"] for one in listed["collections"]] == ["quay"]
    assert "no such collection" in refused.content[0].text  # type: ignore[union-attr]
    assert statuses == [401, 401, 401, 403]


async def test_a_page_of_another_name_is_refused_without_a_token(url: str) -> None:
    async with httpx.AsyncClient() as http:
        reply = await http.post(url, json={}, headers={"Host": "evil.example"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (403, "forbidden")


async def test_a_call_is_a_line_of_the_log_with_what_came_of_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, Any]] = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", lambda record: told.append(json.loads(record.getMessage())))
    monkeypatch.setattr(logging.getLogger(LOGGER), "handlers", [handler])
    async with Client(url) as client:
        await client.call_tool("ask", {"question": QUESTION})
    assert {line["route"] for line in told} == {"/mcp"}
    assert [line["outcome"] for line in told if "outcome" in line] == ["answered"]

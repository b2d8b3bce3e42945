"""Scenario 34 over HTTP: collections with opposite facts never answer for each other; strangers see none."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx

from mrag.models.language_model import Request
from mrag.models.scripted import Rule, ScriptedModel
from mrag.query.library import Library
from mrag.query.local import local_pipeline
from mrag.query.opened import OpenCollections
from mrag.settings import parse_settings
from serve.access import Key, Keyring
from serve.routes import create_api
from tests.collection_corpus import STAMP, add, make_entry
from tests.harbour import Encoder
from tests.served import keyring

FACTS = {"north": "The ferry Alma is red.", "south": "The ferry Alma is blue."}
QUESTION = "Which colour has Alma?"
ROUNDS = 500


def said(request: Request) -> Any:
    """The one sentence that the prompt shows, as a row; the colour of the row, as the answer."""
    shown = request.messages[-1].content
    fact = next(fact for fact in FACTS.values() if fact in shown)
    if request.purpose == "evidence":
        return Rule({"table": {"schema": "ATOMIC", "rows": [{"source": "S1", "fact": fact}]}})
    return Rule(fact.split()[-1].rstrip("."))


def client(root: Path, keys: Keyring | None = None) -> httpx.AsyncClient:
    for name, fact in FACTS.items():
        add(root, name, [make_entry(f"{name}.md", [[QUESTION]], fact)])
    reader = {"name": "sane", "w": 2, "k": 1, "select": "off"}
    method = {"reader": reader, "retrieval": {"name": "keys"}}
    settings = parse_settings({"collection": {"root": root, "name": "north"}, "method": method})
    opened = OpenCollections(root, STAMP.encoder)
    pipeline = local_pipeline(settings, ScriptedModel(said), Encoder(), opened)
    api = create_api(pipeline, Library(root, opened), settings, keys or Keyring())
    return httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://localhost:8000")


async def test_a_thousand_interleaved_questions_are_answered_by_their_own_collection(tmp_path: Path) -> None:
    turn = asyncio.Semaphore(16)

    async def ask(http: httpx.AsyncClient, name: str, path: str) -> tuple[str, Any]:
        async with turn:
            reply = await http.post(path, json={"question": QUESTION, "collection": name})
        assert reply.status_code == 200, reply.text
        return name, reply.json()

    async with client(tmp_path) as http:
        paths = ("/v1/retrieve", "/v1/query")
        asked = [ask(http, name, paths[n % 2]) for n in range(ROUNDS) for name in FACTS]
        replies = await asyncio.gather(*asked)
    assert len(replies) == 2 * ROUNDS
    for name, reply in replies:
        other = next(fact for tenant, fact in FACTS.items() if tenant != name)
        assert FACTS[name] in str(reply)
        assert other not in str(reply)
        assert f"{name}.md" in str(reply)
        if "text" in reply:
            assert reply["text"] == FACTS[name].split()[-1].rstrip(".")


async def test_a_collection_that_a_token_may_not_see_looks_like_none(tmp_path: Path) -> None:
    keys = keyring(only=Key("north", frozenset({"read", "write", "admin"}), frozenset({"north"})))
    async with client(tmp_path, keys) as http:
        http.headers["Authorization"] = "Bearer only"
        for path in ("/v1/query", "/v1/retrieve", "/v1/evidence"):
            hidden, absent = [
                await http.post(path, json={"question": QUESTION, "collection": name})
                for name in ("south", "nowhere")
            ]
            assert (hidden.status_code, hidden.content) == (404, absent.content)
        listed = (await http.get("/v1/collections")).json()["collections"]
        assert [one["name"] for one in listed] == ["north"]
        for path in ("/v1/collections/{}", "/v1/documents/south.md?collection={}"):
            hidden, absent = [await http.get(path.format(name)) for name in ("south", "nowhere")]
            assert (hidden.status_code, hidden.content) == (404, absent.content)

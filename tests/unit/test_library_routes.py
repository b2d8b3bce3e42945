"""Collections, documents and evidence over HTTP."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from mrag.errors import ModelError
from mrag.settings import SaneReader, parse_settings
from serve.access import Key
from tests.served import Shelves, Stages, client


async def get(path: str, token: str = "", **options: Any) -> httpx.Response:
    async with client(**options) as http:
        return await http.get(path, headers={"Authorization": f"Bearer {token}"} if token else {})


async def test_a_document_shows_units_and_who_points_to_them() -> None:
    reply = await get("/v1/documents/a.md")
    found = reply.json()
    assert reply.status_code == 200
    assert (found["id"], found["collection"], found["title"]) == ("a.md", "default", "A")
    assert found["metadata"] == {"year": 1900}
    assert found["text"][slice(found["units"][1]["start"], found["units"][1]["end"])] == "It floats."
    assert found["units"][0]["records"] == [
        {"id": "r1", "keys": ["Who built it?"], "value": "Ada built it.", "fallback": False}
    ]
    assert found["units"][1]["records"][0]["fallback"]


@pytest.mark.parametrize(
    "name", ["a/b/c.md", "a#1", "a?b=c", "a b%20c", "aö/日本", "a//b", "a/../b", "a" * 4096]
)
async def test_any_id_reaches_the_library_as_it_is(name: str) -> None:
    shelves = Shelves()
    reply = await get(f"/v1/documents/{quote(name, safe='')}?collection=secret", shelves=shelves)
    assert reply.status_code == 200
    assert shelves.asked == [("secret", name)]


async def test_slashes_of_an_id_may_stand_as_they_are() -> None:
    shelves = Shelves()
    await get("/v1/documents/a/b.md", shelves=shelves)
    assert shelves.asked == [("default", "a/b.md")]


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/documents/nowhere", "document"),
        ("/v1/documents/", "document"),
        ("/v1/documents/a.md?collection=nowhere", "collection"),
        ("/v1/collections/nowhere", "collection"),
    ],
)
async def test_what_is_not_there_is_told_like_any_error(path: str, field: str) -> None:
    reply = await get(path)
    assert reply.status_code == 404
    assert (reply.json()["error"]["code"], reply.json()["error"]["field"]) == ("not_found", field)


async def test_collections_are_listed_with_their_builder_and_counts() -> None:
    found = (await get("/v1/collections")).json()["collections"]
    assert [(one["name"], one["builder"], one["generation"]) for one in found] == [
        ("default", "markers", 7),
        ("secret", "units", 2),
    ]
    assert found[0]["counts"]["units"] == 2
    described = (await get("/v1/collections/secret")).json()
    assert (described["generations"], described["dead_share"]) == ([6, 7], 0.0)
    assert described.items() >= found[1].items()


@pytest.mark.parametrize(
    "path",
    ["/v1/documents/a.md?collection={}", "/v1/collections/{}", "/v1/retrieve", "/v1/query", "/v1/evidence"],
)
async def test_a_forbidden_collection_looks_like_one_that_is_not_there(path: str) -> None:
    keys = {"t": Key("t", frozenset({"read"}), frozenset({"default", "gone"}))}
    bodies = []
    for name in ("secret", "nowhere"):
        async with client(keys=keys) as http:
            http.headers["Authorization"] = "Bearer t"
            if "{}" in path:
                reply = await http.get(path.format(name))
            else:
                reply = await http.post(path, json={"question": "Who?", "collection": name})
        assert reply.status_code == 404
        bodies.append(reply.text.replace(name, "x"))
    gone = (await get("/v1/collections/gone", "t", keys=keys)).text.replace("gone", "x")
    assert {*bodies} == {gone}


async def test_a_token_lists_only_what_it_may_see() -> None:
    keys = {"t": Key("t", frozenset({"read"}), frozenset({"secret"}))}
    found = (await get("/v1/collections", "t", keys=keys)).json()["collections"]
    assert [one["name"] for one in found] == ["secret"]
    assert (await get("/v1/documents/a.md", "t", keys=keys)).status_code == 404
    assert (await get("/v1/documents/a.md?collection=secret", "t", keys=keys)).status_code == 200


async def test_evidence_is_the_table_without_an_answer() -> None:
    stages = Stages()
    settings = parse_settings({"method": {"reader": {"name": "plain"}}})
    async with client(stages, settings) as http:
        body = {"question": "Who built it?", "k": 3, "w": 9}
        found = (await http.post("/v1/evidence", json=body)).json()
        refused = await http.post("/v1/evidence", json={**body, "reader": "plain"})
    assert "text" not in found
    assert found["evidence"]["rows"][0]["verdict"] == "verified"
    assert [stage["stage"] for stage in found["trace"]] == ["retrieve", "select", "extract"]
    assert stages.asked[0].reader == SaneReader(k=3, w=9, select="likelihood", max_rows=6)
    assert (refused.status_code, refused.json()["error"]["field"]) == (422, "reader")


async def test_evidence_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def down(*_: Any) -> Any:
        raise ModelError("It is down.")

    monkeypatch.setattr(Stages, "extract", down)
    async with client() as http:
        reply = await http.post("/v1/evidence", json={"question": "Who built it?"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (502, "model")

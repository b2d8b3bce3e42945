"""Jobs over HTTP, run by what only notes them: what is refused, who sees what, and what is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from mrag.errors import MragError
from mrag.settings import Settings, load_settings, parse_settings
from serve.access import Key
from serve.calls import JobsMissingError, StageDownError
from serve.faults import Fault
from serve.job_desk import LINES, ordered, settings_for_job
from serve.job_values import IndexBody, Line, Order
from tests.noted_jobs import Cluster
from tests.served import client

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "documents" / "handbook").mkdir(parents=True)
    return tmp_path / "documents"


def settings_for(folder: Path, **jobs: Any) -> Settings:
    return parse_settings(
        {
            "collection": {"root": folder.parent / "collections"},
            "serve": {"jobs": {"roots": [folder], **jobs}, "tokens": [{"name": "x", "sha256": "0" * 64}]},
        }
    )


def asking(
    folder: Path, cluster: Cluster, keys: dict[str, Key] | None = None, **jobs: Any
) -> httpx.AsyncClient:
    return client(settings=settings_for(folder, **jobs), runner=cluster, keys=keys)


def as_(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


INDEX = {"kind": "index", "folder": "handbook"}


async def test_a_job_is_ordered_with_the_settings_of_the_service_and_none_of_its_tokens(folder: Path) -> None:
    cluster = Cluster()
    async with asking(folder, cluster) as http:
        body = {"kind": "sync", "folder": "handbook", "collection": "new", "max_llm_tokens": 9, "wait_s": 2.5}
        reply = await http.post("/v1/jobs", json=body)
    (order,) = cluster.orders
    told = reply.json()
    assert reply.status_code == 202
    assert (told["id"], told["kind"], told["collection"], told["status"]) == (
        *cluster.known,
        "sync",
        "new",
        "pending",
    )
    assert order.asked.model_dump() == {**body, "folder": str(folder / "handbook")}
    settings = parse_settings(order.settings)
    assert (settings.collection.name, settings.collection.root) == ("new", folder.parent / "collections")
    assert (settings.job.served, settings.serve.jobs.roots, settings.serve.tokens) == (True, (folder,), ())


@pytest.mark.parametrize("config", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_jobs_settings_are_those_of_the_service_but_for_the_service(config: Path) -> None:
    settings = load_settings(config)
    made = parse_settings(settings_for_job(settings, settings.collection.name))
    unlike = {"serve": made.serve, "job": settings.job.model_copy(update={"served": not settings.extractor})}
    assert made == settings.model_copy(update=unlike)


def test_a_job_writes_to_the_object_store_of_the_service() -> None:
    settings = parse_settings({"collection": {"root": "s3://bucket/collections"}})
    made = parse_settings(settings_for_job(settings, "default"))
    assert made.collection == settings.collection


def test_a_job_with_a_model_of_its_own_loads_it(folder: Path) -> None:
    scripted = {"engine": "scripted", "replies": "/a.jsonl"}
    settings = parse_settings({"extractor": scripted, "serve": {"jobs": {"roots": [folder]}}})
    made = Order.model_validate_json(ordered(settings, "a", IndexBody(kind="index", folder="handbook")))
    assert not parse_settings(made.settings).job.served


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({**INDEX, "folder": "../documents"}, 400, "folder"),
        ({**INDEX, "folder": "/etc"}, 400, "folder"),
        ({**INDEX, "folder": "a\0"}, 400, "folder"),
        ({**INDEX, "folder": "x" * 4096}, 400, "folder"),
        ({**INDEX, "folder": "\ud83d"}, 400, "folder"),
        ({**INDEX, "collection": "../x"}, 400, "collection"),
        ({**INDEX, "collection": ""}, 400, "collection"),
        ({**INDEX, "collection": "\ud83d"}, 400, "collection"),
        ({**INDEX, "max_llm_tokens": -1}, 422, "max_llm_tokens"),
        ({**INDEX, "wait_s": 1e9}, 422, "wait_s"),
        ({**INDEX, "config": "/etc"}, 422, "config"),
        ({"kind": "index"}, 422, "folder"),
        ({"kind": "compact"}, 422, "kind"),
        ({"folder": "handbook"}, 422, "kind"),
        ({"kind": "delete"}, 400, "ids"),
        ({"kind": "delete", "ids": ["\ud83d"]}, 400, "ids"),
        ({"kind": "delete", "ids": ["x" * 100_000]}, 400, "ids"),
        ({"kind": "delete", "ids": ["ab"] * 19_000}, 400, "ids"),
        ({"kind": "delete", "filter": {"a": None}}, 400, "filter"),
        ({"kind": "delete", "ids": ["a"], "collection": "nowhere"}, 404, "collection"),
        ([], 422, None),
    ],
)
async def test_what_can_t_be_done_is_not_begun(
    folder: Path, body: Any, status: int, field: str | None
) -> None:
    cluster = Cluster()
    async with asking(folder, cluster) as http:
        content = {"content": json.dumps(body), "headers": {"Content-Type": "application/json"}}
        reply = await http.post("/v1/jobs", **content)  # type: ignore[arg-type]
    error = reply.json()["error"]
    assert (reply.status_code, error["field"]) == (status, field)
    assert error["message"].endswith(".")
    assert not cluster.orders
    assert str(folder.parent) not in reply.text


async def test_without_a_root_nothing_is_read(folder: Path) -> None:
    async with asking(folder, Cluster(), roots=[]) as http:
        for name in ("handbook", str(folder), "/"):
            reply = await http.post("/v1/jobs", json={**INDEX, "folder": name})
            assert (reply.status_code, reply.json()["error"]["field"]) == (400, "folder")


async def test_a_page_of_another_site_can_t_send_a_job(folder: Path) -> None:
    cluster = Cluster()
    async with asking(folder, cluster) as http:
        for kind in ("text/plain", "application/x-www-form-urlencoded"):
            body = {"content": json.dumps(INDEX), "headers": {"Content-Type": kind}}
            reply = await http.post("/v1/jobs", **body)  # type: ignore[arg-type]
            assert reply.status_code == 422
    assert not cluster.orders


async def test_a_job_is_seen_by_who_may_see_its_collection(folder: Path) -> None:
    keys = {
        "a": Key("a", frozenset({"write"}), frozenset({"a"})),
        "b": Key("b", frozenset({"write"}), frozenset({"b"})),
        "r": Key("r", frozenset({"read", "admin"})),
        "w": Key("w", frozenset({"write"})),
    }
    cluster = Cluster()
    async with asking(folder, cluster, keys) as http:
        refused = await http.post("/v1/jobs", json={**INDEX, "collection": "b"}, headers=as_("a"))
        submitted = [
            (await http.post("/v1/jobs", json={**INDEX, "collection": name}, headers=as_(name))).json()["id"]
            for name in ("a", "b")
        ]
        listed = {
            token: [one["id"] for one in (await http.get("/v1/jobs", headers=as_(token))).json()["jobs"]]
            for token in "abw"
        }
        other = [
            await http.request(method, f"/v1/jobs/{name}", headers=as_("a"))
            for name in (submitted[1], "mrag-" + "0" * 32, "nothing", "..%2Fnodes")
            for method in ("GET", "DELETE")
        ]
        statuses = [(await http.get("/v1/jobs", headers=as_(token))).status_code for token in "rx"]
    assert (refused.status_code, refused.json()["error"]["field"]) == (404, "collection")
    assert listed == {"a": submitted[:1], "b": submitted[1:], "w": submitted[::-1]}
    assert {reply.status_code for reply in other} == {404}
    assert len({reply.text for reply in other[:6]}) == 1
    assert cluster.known[submitted[1]].status == "pending"
    assert statuses == [403, 401]


async def test_a_job_is_followed_to_its_report(folder: Path) -> None:
    cluster = Cluster()
    async with asking(folder, cluster) as http:
        name = (await http.post("/v1/jobs", json=INDEX)).json()["id"]
        lines = [Line(progress=f"line {number}") for number in range(LINES + 3)]
        cluster.end(name, "running", "WARNING /srv/secret", *lines)
        cluster.logs[name] += 'mrag-job: {"report": {"counts": {"failed": 1}'
        running = (await http.get(f"/v1/jobs/{name}")).json()
        cluster.end(name, "failed", *lines, Line(report={"counts": {"failed": 1}}))
        ended = (await http.get(f"/v1/jobs/{name}")).json()
    assert (running["status"], running["report"], running["error"]) == ("running", None, None)
    assert running["progress"] == [f"line {number}" for number in range(3, LINES + 3)]
    assert (ended["status"], ended["report"], ended["error"]) == ("failed", {"counts": {"failed": 1}}, None)


async def test_a_job_that_fails_says_why(folder: Path) -> None:
    cluster = Cluster()
    fault = Fault(code="bad_input", message="There is nothing.", field="folder")
    async with asking(folder, cluster) as http:
        told = []
        for lines in ([Line(error=fault)], ["Traceback: /srv/secret"]):
            name = (await http.post("/v1/jobs", json=INDEX)).json()["id"]
            cluster.end(name, "failed", *lines)
            told.append((await http.get(f"/v1/jobs/{name}")).json()["error"])
    assert told[0] == fault.model_dump()
    assert told[1]["code"] == "internal"
    assert "/srv" not in told[1]["message"]


async def test_a_job_is_cancelled_once(folder: Path) -> None:
    cluster = Cluster()
    async with asking(folder, cluster) as http:
        name = (await http.post("/v1/jobs", json=INDEX)).json()["id"]
        first = await http.delete(f"/v1/jobs/{name}")
        cluster.end(name, "done")
        second = await http.delete(f"/v1/jobs/{name}")
    assert (first.status_code, first.json()["status"]) == (200, "cancelled")
    assert (second.status_code, second.json()["status"]) == (200, "done")


async def test_no_more_jobs_run_at_once_than_may(folder: Path) -> None:
    cluster = Cluster()
    async with asking(folder, cluster, at_once=1) as http:
        first = await http.post("/v1/jobs", json=INDEX)
        second = await http.post("/v1/jobs", json=INDEX)
        cluster.end(first.json()["id"], "failed")
        third = await http.post("/v1/jobs", json=INDEX)
    assert [reply.status_code for reply in (first, second, third)] == [202, 503, 202]
    assert second.headers["retry-after"]


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [(JobsMissingError(), 501, "not_implemented"), (StageDownError("It is down."), 503, "unavailable")],
)
async def test_without_a_job_api_it_says_so(folder: Path, error: MragError, status: int, code: str) -> None:
    async with asking(folder, Cluster(error)) as http:
        replies = [
            await http.post("/v1/jobs", json=INDEX),
            await http.get("/v1/jobs"),
            await http.get("/v1/jobs/mrag-" + "0" * 32),
        ]
    assert {reply.status_code for reply in replies} == {status}
    assert {reply.json()["error"]["code"] for reply in replies} == {code}
    async with client() as http:
        assert (await http.get("/v1/jobs")).status_code == 501

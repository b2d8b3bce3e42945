"""The whole way on real parts: `ray job submit`, Ray Serve, HTTP, the true engine with the small test model.

The model is too small to be right; what is asserted holds whatever it says.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx
import pytest

from jobs.local_cluster import Cluster, free_port, ray_head, tool
from jobs.quickstart import Chosen, service
from mrag.collection import Collection
from mrag.query.verify import quoted

REPOSITORY = Path(__file__).parents[2]
DOCUMENTS = ("handbook.md", "products/tidewren-4.md", "minutes-2024-04-18.txt", "correspondence.jsonl")


@dataclass(frozen=True)
class Running:
    """A service over part of the sample corpus, and what its indexing job reported."""

    url: str
    root: Path
    folder: Path
    chosen: Chosen
    cluster: Cluster
    report: dict[str, Any]
    log: str

    def post(self, path: str, **body: Any) -> httpx.Response:
        return httpx.post(self.url + path, json=body, timeout=300)


def submit(cluster: Cluster, chosen: Chosen, folder: Path, report: Path) -> tuple[int, str]:
    entry = [sys.executable, "-m", "jobs.index", str(folder), *chosen.options, "--json", str(report)]
    command = [
        tool("ray"),
        "job",
        "submit",
        "--address",
        cluster.dashboard,
        "--working-dir",
        ".",
        "--",
        *entry,
    ]
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env=cluster.environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    place = tmp_path_factory.mktemp("e2e")
    folder = place / "documents"
    sample = Path(str(files("mrag") / "data" / "sample" / "documents"))
    for name in DOCUMENTS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(sample / name, folder / name)
    chosen = Chosen(
        str(REPOSITORY / "configs" / "local.yaml"),
        (
            f"collection.root={place / 'collections'}",
            "collection.name=sample",
            "collection.shards=2",
            f"serve.port={free_port(8000)}",
            "language_model.model=smollm2-135m-instruct",
            "extraction.retries=0",
        ),
    )
    with ray_head(place) as cluster:
        code, log = submit(cluster, chosen, folder, place / "report.json")
        assert code == 0, log
        report = json.loads((place / "report.json").read_text("utf-8"))
        with service(cluster, chosen, place) as url:
            yield Running(url, place / "collections", folder, chosen, cluster, report, log)


def test_the_job_accounts_for_every_document_and_covers_every_unit(running: Running) -> None:
    report = running.report
    assert {name: count for name, count in report["counts"].items() if count} == {"indexed": 5}
    assert report["inputs"] == 5
    assert report["coverage_after_repair"] == 1.0
    assert report["llm_calls"] > 0
    assert report["llm_completion_tokens"] > 0
    assert "5/5 documents" in running.log
    collection = Collection.open(running.root, "sample", legs=())
    for name in ("handbook.md", "memo-2024-07"):
        pointed = {number for record in collection.records(name) for number in record.pointers}
        assert pointed == {unit.number for unit in collection.units(name)}


def test_a_second_job_repeats_nothing(running: Running, tmp_path: Path) -> None:
    code, log = submit(running.cluster, running.chosen, running.folder, tmp_path / "report.json")
    report = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert code == 0, log
    assert report["counts"]["unchanged"] == 5
    assert (report["llm_calls"], report["generation"]) == (0, running.report["generation"])


def test_a_streamed_answer_ends_as_the_unstreamed_one(running: Running) -> None:
    body = {"question": "Who designed the Tidewren 4?", "reader": "plain"}
    names, text, last = [], "", {}
    with httpx.stream("POST", f"{running.url}/v1/query", json={**body, "stream": True}, timeout=300) as reply:
        assert reply.status_code == 200
        for line in reply.iter_lines():
            kind, _, rest = line.partition(": ")
            if kind == "event":
                names.append(rest)
            elif kind == "data":
                last = json.loads(rest)
                text += last["text"] if names[-1] == "text" else ""
    assert [name for name in names if name != "text"] == ["stage", "stage", "answer"]
    assert names.index("text") < names.index("answer")
    answer = running.post("/v1/query", **body).json()
    assert text == last["text"] == answer["text"]
    assert last["sources"] == answer["sources"]


def test_the_papers_selection_makes_three_calls_a_question(running: Running) -> None:
    answer = running.post("/v1/query", question="Who designed the Tidewren 4?", select="listed").json()
    assert [stage["usage"]["calls"] for stage in answer["trace"]] == [0, 1, 1, 1]


def test_an_answer_has_a_trace_and_its_citations_resolve(running: Running) -> None:
    reply = running.post("/v1/query", question="Who designed the Tidewren 4?")
    answer = reply.json()
    assert reply.status_code == 200
    assert [stage["stage"] for stage in answer["trace"]] == ["retrieve", "select", "extract", "generate"]
    calls = {stage["stage"]: stage["usage"]["calls"] for stage in answer["trace"]}
    assert (calls["retrieve"], calls["extract"], calls["generate"]) == (0, 1, 1)
    assert f"Selection made {calls['select']} requests, one a candidate." in answer["notes"]
    collection = Collection.open(running.root, "sample", legs=())
    for row in answer["evidence"]["rows"]:
        if row["verdict"] == "verified":
            number = row["source"]["units"][0]
            unit = collection.units(row["source"]["document_id"])[number - 1]
            assert quoted(row["quote"], unit.text) is not None
    assert answer["sources"]
    for source in answer["sources"]:
        units = {unit.number for unit in collection.units(source["document_id"])}
        assert set(source["units"]) <= units


def test_the_plain_reader_stays_within_its_budget_and_shows_no_keys(running: Running) -> None:
    question = "How much does Orrenvik Instruments pay for meals on a business trip?"
    answer = running.post("/v1/query", question=question, reader="plain", budget_tokens=200).json()
    pool = running.post("/v1/retrieve", question=question).json()
    values = {record["value"] for c in pool["candidates"] for record in c["records"]}
    keys = {key for c in pool["candidates"] for record in c["records"] for key in record["keys"]} - values
    assert 0 < answer["context"]["tokens"] <= 200
    assert answer["evidence"] is None
    assert not [key for key in keys if key in answer["context"]["text"]]


@pytest.mark.parametrize("retrieval", ["keys", "keys+units"])
def test_a_collection_with_units_answers_both_retrievals(running: Running, retrieval: str) -> None:
    reply = running.post("/v1/retrieve", question="meal allowance", retrieval=retrieval, w=3)
    assert reply.status_code == 200
    assert len(reply.json()["candidates"]) == 3


def test_a_pool_finds_the_paragraph_and_gives_its_offsets(running: Running) -> None:
    pool = running.post("/v1/retrieve", question="meal allowance on business trips", w=5).json()
    text = (running.folder / "handbook.md").read_text("utf-8")
    units = [u for c in pool["candidates"] for u in c["units"] if u["document_id"] == "handbook.md"]
    assert len(pool["candidates"]) == 5
    assert any("46 euros" in unit["text"] for unit in units)
    assert all(text[unit["start"] : unit["end"]] == unit["text"] for unit in units)
    assert all(set(c["scores"]) <= {"dense", "sparse"} for c in pool["candidates"])


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"question": ""}, 400, "question"),
        ({"question": "word " * 20000}, 400, "question"),
        ({"question": "Who?", "collection": "nowhere"}, 404, "collection"),
        ({"question": "Who?", "collection": "../sample"}, 400, "collection"),
        ({"question": "Who?", "w": 3, "k": 4}, 400, "k"),
        ({"question": "Who?", "reader": "plain", "budget_tokens": 0}, 400, "budget_tokens"),
        ({"question": "Who?", "reader": "magic"}, 422, "reader"),
    ],
)
def test_bad_requests_keep_their_sentence_on_the_way(
    running: Running, body: dict[str, Any], status: int, field: str
) -> None:
    reply = running.post("/v1/query", **body)
    error = reply.json()["error"]
    assert (reply.status_code, error["field"]) == (status, field)
    assert "\n" not in error["message"]
    assert error["message"].endswith(".")


@pytest.mark.slow
def test_many_clients_at_once_lose_nothing_and_are_told_what_one_is(running: Running) -> None:
    lines = (files("mrag") / "data" / "sample" / "questions.jsonl").read_text("utf-8").splitlines()
    questions = [json.loads(line)["question"] for line in lines]
    alone = {question: running.post("/v1/retrieve", question=question).json() for question in questions}

    async def all_at_once(path: str, count: int, **options: Any) -> list[tuple[str, httpx.Response]]:
        async def one(http: httpx.AsyncClient, number: int) -> tuple[str, httpx.Response]:
            question = questions[number % len(questions)]
            return question, await http.post(path, json={"question": question, **options})

        limits = httpx.Limits(max_connections=100)
        async with httpx.AsyncClient(base_url=running.url, timeout=300, limits=limits) as http:
            return await asyncio.gather(*(one(http, number) for number in range(count)))

    for path, count, options in (("/v1/retrieve", 600, {}), ("/v1/query", 24, {"reader": "plain"})):
        replies = asyncio.run(all_at_once(path, count, **options))
        assert len(replies) == count
        assert {reply.status_code for _, reply in replies} <= {200, 503}
        busy = [reply for _, reply in replies if reply.status_code == 503]
        assert len(busy) < count / 2
        assert all(reply.headers["retry-after"] for reply in busy)
        for question, reply in replies:
            if reply.status_code == 200 and path == "/v1/retrieve":
                assert reply.json() == alone[question]
            elif reply.status_code == 200:
                assert [stage["stage"] for stage in reply.json()["trace"]] == ["retrieve", "generate"]
    assert running.post("/v1/retrieve", question=questions[0]).json() == alone[questions[0]]


def test_the_page_of_the_api_is_served(running: Running) -> None:
    assert httpx.get(running.url + "/healthz").json()["status"] == "ok"
    assert "/v1/query" in httpx.get(running.url + "/openapi.json").json()["paths"]

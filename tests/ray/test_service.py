"""The graph on a local Ray Serve: every kind of API reaches its stages. The language model is scripted."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import openai
import psutil
import pytest
from mcp import Client

from jobs.local_cluster import free_port
from mrag.indexing.run import index_folder
from mrag.settings import parse_settings

ALMA = "The ferry Alma was built in 1962."
ANSWER = "Alma was built in 1962."
FILE = "boats/alma #1.md"
SELECTING = {"purpose": "select", "reply": {"selected": [1]}}
RULES = (
    {
        "purpose": "evidence",
        "reply": {"table": {"schema": "ATOMIC", "rows": [{"source": "S1", "fact": ALMA}]}},
    },
    {"purpose": "answer", "reply": ANSWER},
    {"purpose": "ready", "reply": "Yes"},
)
ENGINES = ["LanguageModel", "LanguageModel-select"]
STAGES = ["Retriever", "Encoder", "Selector", "Extractor", "Generator", *ENGINES]
QUESTION = {"question": "When was Alma built?"}


@pytest.fixture(scope="module")
def url(cluster: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    from ray import serve as ray_serve

    from serve.run import start

    place = tmp_path_factory.mktemp("service")
    (place / "in" / "boats").mkdir(parents=True)
    (place / "in" / FILE).write_text(ALMA)
    (place / "replies.jsonl").write_text("\n".join(map(json.dumps, RULES)))
    (place / "selecting.jsonl").write_text(json.dumps(SELECTING))
    settings = parse_settings(
        {
            "method": "sane",
            "collection": {"root": place / "root", "name": "harbour"},
            "language_model": {"engine": "scripted", "replies": place / "replies.jsonl"},
            "stage_models": {"select": {"engine": "scripted", "replies": place / "selecting.jsonl"}},
            "serve": {"port": free_port(8000), "language_model": {"num_cpus": 0.1}},
        }
    )
    asyncio.run(index_folder(settings, place / "in"))
    start(settings)
    yield f"http://127.0.0.1:{settings.serve.port}"
    ray_serve.shutdown()


def test_a_document_and_its_collection_come_from_the_retriever(url: str) -> None:
    listed = httpx.get(f"{url}/v1/collections").json()["collections"]
    described = httpx.get(f"{url}/v1/collections/harbour").json()
    found = httpx.get(f"{url}/v1/documents/{quote(FILE, safe='')}").json()
    missing = httpx.get(f"{url}/v1/documents/nowhere")
    assert [(one["name"], one["builder"], one["counts"]["documents"]) for one in listed] == [
        ("harbour", "units", 1)
    ]
    assert (described["generations"], described["dead_share"]) == ([1], 0.0)
    assert (found["text"], found["units"][0]["records"][0]["value"]) == (ALMA, ALMA)
    assert (missing.status_code, missing.json()["error"]["field"]) == (404, "document")


def test_evidence_is_extracted_and_verified(url: str) -> None:
    reply = httpx.post(f"{url}/v1/evidence", json={"question": "When was Alma built?"}, timeout=60)
    assert [row["verdict"] for row in reply.json()["evidence"]["rows"]] == ["verified"]
    assert reply.headers["x-request-id"]


def test_the_client_of_openai_is_answered_whole_and_in_pieces(url: str) -> None:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none")
    asked = [{"role": "user", "content": "When was Alma built?"}]
    whole = client.chat.completions.create(model="harbour:sane", messages=asked)  # type: ignore[arg-type]
    stream = client.chat.completions.create(model="harbour", messages=asked, stream=True)  # type: ignore[call-overload]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert text == whole.choices[0].message.content
    assert text.startswith(f"{ANSWER} [1]\n\n- [1] ")
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="nowhere", messages=asked)  # type: ignore[arg-type]


async def test_an_agent_asks_through_its_tools(url: str) -> None:
    async with Client(f"{url}/mcp") as client:
        answered = (await client.call_tool("ask", {"question": "When was Alma built?"})).structured_content
    assert (answered["answer"], answered["citations"]) == (ANSWER, [1])


def test_the_service_says_that_it_lives_and_that_it_is_ready(url: str) -> None:
    assert httpx.get(f"{url}/healthz").json()["status"] == "ok"
    assert httpx.get(f"{url}/readyz", timeout=60).json() == {"status": "ready"}


def replica(deployment: str) -> psutil.Process:
    """The process of the one replica of a deployment of this test's cluster."""
    ours = psutil.Process().children(recursive=True)
    named = re.compile(rf"mrag:{deployment}(?![\w-])")
    return next(p for p in ours if any(named.search(part) for part in p.cmdline()))


def answered(url: str) -> str:
    """`whole`, `partial` (a stage was done without, and that is told) or `refused`; never a wrong answer."""
    reply = httpx.post(f"{url}/v1/query", json=QUESTION, timeout=120)
    if reply.status_code in (502, 503):
        return "refused"
    assert reply.status_code == 200, reply.text
    answer = reply.json()
    lost = answer["partial"] or any(stage["failed"] for stage in answer["trace"])
    assert answer["text"] in ((ANSWER, "") if lost else (ANSWER,)), answer
    assert not lost or answer["notes"]
    return "partial" if lost else "whole"


@pytest.mark.slow
@pytest.mark.parametrize("deployment", STAGES)
def test_a_stage_that_is_killed_under_load_comes_back_and_no_answer_is_wrong(
    url: str, deployment: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ended, told, faults = threading.Event(), list[str](), list[BaseException]()

    def keep_asking() -> None:
        try:
            while not ended.is_set():
                told.append(answered(url))
        except BaseException as error:  # noqa: BLE001 (raised below, in the test's own thread)
            faults.append(error)

    clients = [threading.Thread(target=keep_asking) for _ in range(4)]
    for client in clients:
        client.start()
    try:
        _until(lambda: told.count("whole") >= 4 or faults)
        os.kill(replica(deployment).pid, signal.SIGKILL)
        killed, known = time.monotonic(), len(told)
        _until(lambda: told[known:].count("whole") >= 12 or faults)
        seconds = time.monotonic() - killed
    finally:
        ended.set()
        for client in clients:
            client.join()
    if faults:
        raise faults[0]
    with capsys.disabled():
        print(f"\n{deployment}: twelve whole answers {seconds:.1f} s after it was killed; {len(told)} asked")


def _until(holds: Any) -> None:
    deadline = time.monotonic() + 180
    while not holds():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)

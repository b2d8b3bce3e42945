"""The graph with its indexes in two deployments: what it finds, and what it loses when one of them dies."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from jobs.local_cluster import free_port
from mrag.collection import shard_of
from mrag.indexing.run import index_folder
from mrag.models.opening import open_encoder
from mrag.models.scripted import ScriptedModel
from mrag.query.local import local_pipeline
from mrag.query.question import question_for
from mrag.settings import Settings, parse_settings

DOCUMENTS = 24
QUESTION = "Which buoy lies in the outer harbour?"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    place = tmp_path_factory.mktemp("parts")
    (place / "script.jsonl").write_text("")
    return parse_settings(
        {
            "method": "sane",
            "collection": {"root": str(place / "root"), "name": "c", "shards": 2},
            "language_model": {"engine": "scripted", "replies": str(place / "script.jsonl")},
            "serve": {"port": free_port(8100), "parts": 2, "part_timeout_s": 5},
        }
    )


@pytest.fixture(scope="module")
async def documents(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    for number in range(DOCUMENTS):
        text = f"Buoy {number} lies in the outer harbour of Brattling{', far out' * number}."
        (folder / f"{number:02d}.txt").write_text(text)
    report = await index_folder(settings, folder)
    assert report.counts["indexed"] == DOCUMENTS
    return folder


@pytest.fixture(scope="module")
def service(settings: Settings, documents: Path) -> Iterator[str]:
    import ray
    from ray import serve as ray_serve

    from serve.connection import WITH_JAVA
    from serve.run import start

    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=WITH_JAVA)
    start(settings)
    yield f"http://127.0.0.1:{settings.serve.port}"
    ray_serve.shutdown()
    ray.shutdown()


def pool_of(service: str) -> dict[str, Any] | None:
    """None where the service says that it is not ready."""
    reply = httpx.post(f"{service}/v1/retrieve", json={"question": QUESTION, "w": DOCUMENTS}, timeout=120)
    if reply.status_code == 503:
        return None
    assert reply.status_code == 200, reply.text
    pool: dict[str, Any] = reply.json()
    return pool


def found(pool: dict[str, Any]) -> set[str]:
    return set(map(shown, pool["candidates"]))


def shown(candidate: dict[str, Any]) -> str:
    document: str = candidate["document"]["id"]
    return document


async def test_two_parts_find_what_one_process_finds(service: str, settings: Settings) -> None:
    pool = pool_of(service)
    assert pool is not None
    pipeline = local_pipeline(settings, ScriptedModel(()), open_encoder(settings.encoder))
    here = await pipeline.retrieve(question_for(settings, QUESTION), DOCUMENTS)
    assert not pool["partial"]
    assert list(map(shown, pool["candidates"])) == [one.document.id for one in here.candidates]
    assert [one["scores"] for one in pool["candidates"]] == [
        pytest.approx(dict(one.scores), rel=1e-5) for one in here.candidates
    ]


def replica(name: str) -> psutil.Process:
    ours = psutil.Process().children(recursive=True)
    [process] = [one for one in ours if name in " ".join(one.cmdline())]
    return process


def state(service: str) -> str:
    """`whole` or `partial`, and then without the second part alone; `down` where nothing is answered."""
    pool = pool_of(service)
    if pool is None:
        return "down"
    everything = {f"{number:02d}.txt" for number in range(DOCUMENTS)}
    if not pool["partial"]:
        assert found(pool) == everything
        return "whole"
    assert found(pool) == {name for name in everything if shard_of(name, 2) == 0}
    assert pool["notes"][0].startswith("Part 2 of 2 of the collection is missing (")
    return "partial"


def whole_again(service: str) -> bool:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if state(service) == "whole":
            return True
    return False


def test_a_part_that_hangs_is_left_out_and_named(service: str) -> None:
    assert whole_again(service)
    process = replica("Part-2-of-2")
    process.suspend()
    try:
        assert state(service) == "partial"
    finally:
        process.resume()
    assert whole_again(service)


def test_a_part_that_dies_comes_back_and_no_answer_is_wrong(service: str) -> None:
    assert whole_again(service)
    os.kill(replica("Part-2-of-2").pid, signal.SIGKILL)
    assert whole_again(service)

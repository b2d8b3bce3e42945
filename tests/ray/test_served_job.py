"""An indexing job that loads no model of its own, beside the service whose models it asks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from jobs.local_cluster import free_port
from jobs.served import index_served
from mrag.collection import Collection
from mrag.errors import SettingsError
from mrag.indexing.run import index_folder
from mrag.settings import Settings, parse_settings

RECORD = {"units": [1], "key": "What colour has the buoy?", "value": "The buoy is red and in the harbour."}


def settings_for(place: Path, name: str, **job: object) -> Settings:
    script = place / "script.jsonl"
    rules = [{"contains": ["Ghost"], "reply": "nothing"}, {"reply": {"records": [RECORD]}}]
    script.write_text("\n".join(map(json.dumps, rules)))
    return parse_settings(
        {
            "method": "ours",
            "collection": {"root": str(place / "root"), "name": name, "shards": 2},
            "language_model": {"engine": "scripted", "replies": str(script)},
            "job": job,
            "serve": {"port": free_port(8200)},
        }
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("served")
    (place / "documents").mkdir()
    for number in range(6):
        text = f"The buoy is red and in the harbour, said keeper {number}."
        (place / "documents" / f"{number}.txt").write_text(text)
    return place


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    import ray

    from serve.connection import WITH_JAVA

    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=WITH_JAVA)
    yield
    ray.shutdown()


@pytest.mark.usefixtures("cluster")
def test_a_job_that_is_to_be_served_says_when_no_service_runs(place: Path) -> None:
    with pytest.raises(SettingsError, match="'mrag', which does not run on this cluster"):
        index_served(settings_for(place, "none", served=True), place / "documents")


@pytest.fixture(scope="module")
def service(cluster: None, place: Path) -> Iterator[Settings]:
    from ray import serve as ray_serve

    from serve.run import start

    settings = settings_for(place, "served", served=True)
    start(settings)
    yield settings
    ray_serve.shutdown()


def test_a_job_with_other_models_than_the_service_is_refused(place: Path, service: Settings) -> None:
    other = service.model_copy(update={"encoder": service.encoder.model_copy(update={"max_tokens": 128})})
    with pytest.raises(SettingsError, match="The service's encoder is"):
        index_served(other, place / "documents")
    (place / "other.jsonl").write_text((place / "script.jsonl").read_text())
    scripted = service.language_model.model_copy(update={"replies": place / "other.jsonl"})
    with pytest.raises(SettingsError, match="The service's language model is"):
        index_served(service.model_copy(update={"language_model": scripted}), place / "documents")
    nearby = service.collection.model_copy(update={"root": Path("collections")})
    with pytest.raises(SettingsError, match="absolute path"):
        index_served(service.model_copy(update={"collection": nearby}), place / "documents")


def test_a_served_job_makes_what_a_job_of_its_own_makes(place: Path, service: Settings) -> None:
    report = index_served(service, place / "documents")
    own = settings_for(place, "own")
    expected = asyncio.run(index_folder(own, place / "documents"))
    assert report.counts == expected.counts
    assert (report.usage.calls, report.exit_code) == (expected.usage.calls, 0)
    root = service.collection.root
    made, reference = (Collection.open(root, name, legs=()) for name in ("served", "own"))
    assert made.manifest.stamp == reference.manifest.stamp
    for number in range(6):
        assert made.records(f"{number}.txt") == reference.records(f"{number}.txt")
    answer = httpx.post(
        f"http://127.0.0.1:{service.serve.port}/v1/retrieve",
        json={"question": "What colour has the buoy?"},
        timeout=60,
    )
    assert len({one["document"]["id"] for one in answer.json()["candidates"]}) == 6

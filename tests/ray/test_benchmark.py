"""The benchmark's job side on a local Ray with a script, and all of it with the small engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.benchmark import Throughput, bare_engine, extraction_job, once, requests
from mrag.errors import SettingsError
from mrag.indexing.plan import Plan
from mrag.indexing.stages import scan
from mrag.models.scripted import ScriptedModel
from mrag.settings import parse_settings

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (folder := tmp_path / "documents").mkdir()
    (folder / "a.md").write_text("# Alpha\n\nAda built the engine in 1843.\n\nIt weighs 12 tonnes.")
    (folder / "b.txt").write_text("Grace built the compiler in 1952.")
    (folder / "c.txt").write_text(" ")
    (folder / "d.txt").write_text("Karen weighs terms by their rarity.")
    return folder


@pytest.mark.usefixtures("cluster")
def test_the_job_counts_what_its_model_was_asked(folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text(json.dumps({"purpose": "markers", "reply": "two words"}))
    given = parse_settings({"language_model": {"engine": "scripted", "replies": str(script)}})
    settings = once(given, tmp_path / "ledger")
    inputs = scan(folder)[0][:2]
    asked = requests(settings, folder, inputs)
    found = extraction_job(settings, folder, inputs, Plan(len(inputs)))
    assert (found.requests, found.completion_tokens) == (len(asked), 2 * len(asked)) == (3, 6)
    model = ScriptedModel([])
    assert found.prompt_tokens == sum(model.count_prompt_tokens(request.messages) for request in asked)
    assert found.seconds > 0


def test_a_method_that_asks_nothing_is_refused(folder: Path) -> None:
    with pytest.raises(SettingsError, match="asks no model"):
        requests(parse_settings({"method": "sane"}), folder, scan(folder)[0])


def test_another_engine_is_refused() -> None:
    scripted = {"language_model": {"engine": "openai", "model": "m", "base_url": "http://localhost/v1"}}
    with pytest.raises(SettingsError, match="bare engine"):
        bare_engine(parse_settings(scripted), [])


def test_a_throughput_is_of_all_tokens() -> None:
    assert Throughput(3, 90, 10, 4.0).tokens_per_s == 25.0


@pytest.mark.slow
def test_both_sides_are_given_the_same_prompts(folder: Path, tmp_path: Path) -> None:
    model = (
        "language_model={engine: vllm, model: smollm2-135m-instruct, window_tokens: 2048, kv_cache_gib: 1}"
    )
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "jobs.benchmark", str(folder), "--set", model, "--json", str(report)]
    alone = {**os.environ, "RAY_ADDRESS": "local"}
    ended = subprocess.run(command, cwd=REPOSITORY, env=alone, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    tree = json.loads(report.read_text())
    bare, job = tree["bare"], tree["job"]
    assert bare["requests"] == job["requests"] == 4
    assert bare["prompt_tokens"] == job["prompt_tokens"]
    assert f"{tree['share']:.2f} of the bare engine" in ended.stdout

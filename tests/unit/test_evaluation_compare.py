"""`mrag compare` from an experiment file to its tables: the real access path, scripted replies."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mrag.cli import app, measuring
from mrag.evaluation import compare
from mrag.indexing import run
from mrag.models.tokens import ByteTokenizer
from tests.hash_encoder import HashEncoder

SAMPLE = Path(str(files("mrag") / "data" / "sample"))
EXPERIMENTS = Path(__file__).parents[2] / "configs" / "experiments"
RULES: list[dict[str, Any]] = [
    {"purpose": "select", "reply": {"selected": [6, 7, 8, 9, 10]}},
    {"purpose": "evidence", "contains": ["Tidewren"], "reply": {"table": {"schema": "ATOMIC", "rows": []}}},
    {"purpose": "answer", "contains": ["Question: Which engineer"], "reply": "Rurik Tamsin"},
    {"purpose": "answer", "reply": "nobody knows"},
]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for module in (run, compare):
        monkeypatch.setattr(module, "open_encoder", lambda _: HashEncoder())
    monkeypatch.setattr(run, "load_tokenizer", lambda _: ByteTokenizer())
    monkeypatch.setattr(measuring, "fetch_model", lambda *_: None)
    script(tmp_path, RULES)
    return tmp_path


def script(root: Path, rules: Sequence[Mapping[str, Any]]) -> None:
    (root / "script.jsonl").write_text("\n".join(map(json.dumps, rules)))


def command(root: Path, *arguments: str, experiment: Path = EXPERIMENTS / "sample.yaml") -> Any:
    places = [f"collection.root={root / 'root'}", "language_model.engine=scripted"]
    places += [f"language_model.replies={root / 'script.jsonl'}"]
    settings = [part for place in places for part in ("--set", place)]
    line = ["compare", str(experiment), "--data", str(SAMPLE), *settings, *arguments]
    return CliRunner().invoke(app, line, catch_exceptions=True)


def test_the_sample_experiment_makes_its_table(root: Path, tmp_path: Path) -> None:
    ended = command(root, "--index", "--json", str(tmp_path / "c.json"))
    assert ended.exit_code == 0, (ended.output, ended.exception)
    print(ended.stdout)

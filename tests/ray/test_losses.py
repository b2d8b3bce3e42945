"""What a job loses when a part of it dies: time, and what ended it."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from jobs.index import index
from mrag.collection import Collection, known_documents
from mrag.indexing.report import Report
from mrag.settings import Settings, parse_settings

pytestmark = [pytest.mark.usefixtures("cluster"), pytest.mark.slow]

DOCUMENTS = 8


def worker(named: str) -> psutil.Process | None:
    """The worker of this process's Ray that holds the actor, or runs the task, of this name."""
    ours = {child.pid for child in psutil.Process().children(recursive=True)}
    for process in psutil.process_iter(["pid", "cmdline"]):
        if process.info["pid"] in ours and named in " ".join(process.info["cmdline"] or ()):
            return process
    return None


def kill_when(reached: Callable[[], Any], named: str, killed: list[int]) -> None:
    """Ends the worker as by `kill -9` once that is reached and the worker is there."""
    while not killed:
        if reached() and (process := worker(named)):
            os.kill(process.pid, signal.SIGKILL)
            killed.append(process.pid)
        time.sleep(0.05)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(DOCUMENTS):
        text = f"The buoy {number} lies in the outer harbour.\n\nThe buoy {number} is red."
        (folder / f"{number:02d}.txt").write_text(text)
    return folder


def rule(unit: int) -> dict[str, Any]:
    record = {"units": [unit], "key": "What of the buoy?", "value": "The buoy is red and in the harbour."}
    return {"contains": [f"records for [{unit}]"], "reply": {"records": [record]}, "delay_s": 0.5}


def settings_for(place: Path, *rules: dict[str, Any]) -> Settings:
    script = place / "script.jsonl"
    script.write_text("\n".join(json.dumps(each) for each in (*rules, rule(1), rule(2))))
    model = {"engine": "scripted", "replies": str(script), "max_concurrency": 1}
    return parse_settings({"method": "ours", "collection": {"root": place / "root"}, "language_model": model})


def index_and_kill(settings: Settings, folder: Path, reached: Callable[[], Any], named: str) -> Report:
    """The report of a job of which one worker was killed."""
    killed: list[int] = []
    killer = threading.Thread(target=kill_when, args=(reached, named, killed), daemon=True)
    killer.start()
    report = index(settings, folder)
    assert killed
    return report


def entries(settings: Settings) -> list[Path]:
    return list((settings.collection.root / "default" / "ledger").rglob("*.json"))


def all_there(settings: Settings, report: Report) -> bool:
    """Whether every document is in the first generation, each with both of its units."""
    assert (report.counts["indexed"], report.exit_code) == (DOCUMENTS, 0)
    opened = Collection.open(settings.collection.root, "default", legs=())
    try:
        assert (opened.manifest.generation, opened.manifest.counts.units) == (1, 2 * DOCUMENTS)
        return len(known_documents(settings.collection.root, "default")) == DOCUMENTS
    finally:
        opened.close()


def test_a_killed_extractor_costs_no_document_and_no_validated_reply(folder: Path, tmp_path: Path) -> None:
    settings = settings_for(tmp_path)
    report = index_and_kill(settings, folder, lambda: entries(settings), "Extract")
    assert all_there(settings, report)
    assert report.reused.calls >= 1


def test_a_killed_encoder_costs_no_document_and_no_reply(folder: Path, tmp_path: Path) -> None:
    settings = settings_for(tmp_path)
    report = index_and_kill(settings, folder, lambda: len(entries(settings)) > 4, "Encode")
    assert all_there(settings, report)
    assert report.usage.calls + report.reused.calls == 2 * DOCUMENTS


def test_a_killed_writer_is_started_again_and_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    settings = settings_for(tmp_path)
    segments = settings.collection.root / "default" / "segments"
    report = index_and_kill(settings, folder, lambda: list(segments.rglob("*.tmp")), "write_group")
    assert all_there(settings, report)
    index(settings, folder)
    assert not list(segments.rglob("*.tmp"))


def test_an_engine_that_a_document_ends_every_time_costs_this_document(folder: Path, tmp_path: Path) -> None:
    (folder / "poison.txt").write_text("The buoy of poison is green.")
    settings = settings_for(tmp_path, {"contains": ["of poison is"], "error": "dead"})
    report = index(settings, folder)
    assert (report.counts["indexed"], report.counts["failed"], report.exit_code) == (DOCUMENTS, 1, 1)
    assert [outcome.id for outcome in report.named] == ["poison.txt"]

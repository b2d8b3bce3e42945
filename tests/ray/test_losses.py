"""What a job loses when a part of it dies: time."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from jobs.index import index
from mrag.collection import Collection
from mrag.settings import parse_settings

pytestmark = pytest.mark.usefixtures("cluster")

DOCUMENTS = 8


def extractor() -> psutil.Process | None:
    """The worker of this process's Ray that holds the extractor."""
    ours = {child.pid for child in psutil.Process().children(recursive=True)}
    for process in psutil.process_iter(["pid", "cmdline"]):
        if process.info["pid"] in ours and "Extract" in " ".join(process.info["cmdline"] or ()):
            return process
    return None


def kill_when(reached: Path, killed: list[int]) -> None:
    """Ends the extractor as by `kill -9` once something of it stands in the ledger."""
    while not list(reached.rglob("*.json")):
        time.sleep(0.05)
    if process := extractor():
        os.kill(process.pid, signal.SIGKILL)
        killed.append(process.pid)


def rule(unit: int) -> dict[str, Any]:
    record = {"units": [unit], "key": "What of the buoy?", "value": "The buoy is red and in the harbour."}
    return {"contains": [f"records for [{unit}]"], "reply": {"records": [record]}, "delay_s": 0.5}


@pytest.mark.slow
def test_a_killed_extractor_costs_no_document_and_no_validated_reply(tmp_path: Path) -> None:
    folder, root = tmp_path / "in", tmp_path / "root"
    folder.mkdir()
    for number in range(DOCUMENTS):
        text = f"The buoy {number} lies in the outer harbour.\n\nThe buoy {number} is red."
        (folder / f"{number:02d}.txt").write_text(text)
    script = tmp_path / "script.jsonl"
    script.write_text("\n".join(json.dumps(rule(unit)) for unit in (1, 2)))
    model = {"engine": "scripted", "replies": str(script), "max_concurrency": 1}
    settings = parse_settings({"method": "ours", "collection": {"root": root}, "language_model": model})
    killed: list[int] = []
    killer = threading.Thread(target=kill_when, args=(root / "default" / "ledger", killed), daemon=True)
    killer.start()
    report = index(settings, folder)
    killer.join(10)
    assert killed
    assert (report.counts["indexed"], report.exit_code) == (DOCUMENTS, 0)
    assert report.reused.calls >= 1
    opened = Collection.open(root, "default", legs=())
    assert opened.manifest.generation == 1
    opened.close()

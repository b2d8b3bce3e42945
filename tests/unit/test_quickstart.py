"""What quickstart makes of the folder that it is given."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from jobs import quickstart
from jobs.local_cluster import Cluster, forgotten
from jobs.quickstart import Chosen, collection_name, place
from mrag.errors import MragError
from serve import run as serve_run


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("handbook", "handbook"),
        ("My Documents (2024)", "My-Documents-2024"),
        ("_private.d", "private.d"),
        ("Überblick", "berblick"),
        ("文書", "documents"),
        ("...", "documents"),
        ("x" * 200, "x" * 64),
    ],
)
def test_any_folder_gives_a_collection_a_name(folder: str, name: str) -> None:
    assert collection_name(Path("/somewhere") / folder) == name


def test_quickstart_waits_for_what_the_service_says() -> None:
    assert serve_run.SERVING == quickstart.SERVING


@pytest.mark.parametrize(
    "folder", ["plain", "a: b", "# 1", "[x]", 'it\'s "quoted"', "ü {", "yes", "back\\slash"]
)
def test_any_path_reaches_the_settings_as_it_is(tmp_path: Path, folder: str) -> None:
    chosen = Chosen("configs/local.yaml", place(tmp_path / folder, "mine", 8123))
    assert chosen.settings.collection.root == tmp_path / folder
    assert (chosen.settings.collection.name, chosen.settings.serve.port) == ("mine", 8123)


@pytest.mark.parametrize(
    ("named", "left"), [("10.0.0.7:6379", False), ("10.0.0.7:6380", True), (None, False)]
)
def test_the_address_of_a_killed_head_is_forgotten_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str | None, left: bool
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    (tmp_path / "ray").mkdir()
    file = tmp_path / "ray" / "ray_current_cluster"
    with forgotten(6379):
        if named:
            file.write_text(named)
    assert file.exists() == left


FAILING_JOB = """#!/bin/sh
while [ $# -gt 0 ]; do [ "$1" = --json ] && [ "$REPORTS" ] && echo '{}' > "$2"; shift; done
exit 1
"""


@pytest.mark.parametrize("reports", ["", "yes"])
def test_documents_that_failed_do_not_keep_the_others_from_being_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reports: str
) -> None:
    (ray := tmp_path / "ray").write_text(FAILING_JOB)
    ray.chmod(0o755)
    monkeypatch.setattr(quickstart, "tool", lambda _: str(ray))
    cluster = Cluster("127.0.0.1:1", "http://127.0.0.1:2", {"PATH": os.environ["PATH"], "REPORTS": reports})
    chosen = Chosen("configs/local.yaml", ())
    expected = contextlib.nullcontext() if reports else pytest.raises(MragError, match="did not end well")
    with expected:
        quickstart.submit(cluster, chosen, tmp_path, tmp_path / "report.json")

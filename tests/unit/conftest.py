"""Fixtures of several unit tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.synced_folder import LINES, sync, without_weights


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder `in` to be indexed into `root`, without weights."""
    without_weights(monkeypatch)
    (tmp_path / "in").mkdir()
    return tmp_path


@pytest.fixture
def library(place: Path) -> Path:
    """The same with a file of four documents, indexed."""
    (place / "in" / "l.jsonl").write_text("\n".join(map(json.dumps, LINES)))
    sync(place)
    return place

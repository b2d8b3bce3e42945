"""What quickstart makes of the folder that it is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs import quickstart
from jobs.quickstart import Chosen, collection_name, place
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

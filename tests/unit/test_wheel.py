"""The wheel carries the package with its data, and nothing of the repository around it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_only_mrag_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"mrag"}
    assert len(tops) == 2


def test_every_file_of_the_package_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    files = (path for path in (REPOSITORY / "mrag").rglob("*") if path.is_file())
    wanted = {str(path.relative_to(REPOSITORY)) for path in files if "__pycache__" not in path.parts}
    for folder in ("data/sample/documents", "data/methods", "data/blueprints", "prompts"):
        assert any(name.startswith(f"mrag/{folder}/") for name in wanted), folder
    assert "mrag/py.typed" in wanted
    assert wanted <= set(wheel.namelist())


def test_the_wheel_installs_the_command_and_the_licence(wheel: zipfile.ZipFile) -> None:
    (scripts,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert "mrag = mrag.cli:main" in wheel.read(scripts).decode()
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())

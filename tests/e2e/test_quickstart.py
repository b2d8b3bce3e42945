"""The whole walk with the default model, as `make quickstart` makes it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_default_model_indexes_the_sample_and_answers_its_questions(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "jobs.quickstart", "--root", str(tmp_path / "collections")]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    shown = done.stdout + done.stderr
    assert done.returncode == 0, shown[-5000:]
    assert re.search(r"indexed +│ 13 ", shown)
    assert "100.0% after" in shown
    assert len(re.findall(r"^A  .*  right$", shown, re.MULTILINE)) >= 2, shown[-5000:]
    assert len(re.findall(r"^   retrieve .* generate ", shown, re.MULTILINE)) == 3
    assert 'make quickstart DOCS="folder"' in shown

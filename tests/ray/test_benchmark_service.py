"""The benchmark of the service: short, to see that it measures all it promises. Speed is not asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.slow
def test_every_bound_is_printed_beside_what_was_measured() -> None:
    command = [
        sys.executable,
        "-m",
        "jobs.benchmark_service",
        "--documents",
        "60",
        "--seconds",
        "2",
        "--json",
    ]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    bounds = {bound["name"]: bound for bound in found["bounds"]}
    assert list(bounds) == [
        "/v1/retrieve over a bare deployment, p50",
        "a hop of the graph over its stages in process",
        "scripted model: answers/s missing at twice the load",
        "scripted model: requests lost or answered wrongly",
        "scripted model: p99 of those answered",
    ]
    assert bounds["scripted model: requests lost or answered wrongly"]["measured"] == 0
    for bound in found["bounds"]:
        assert bound["held"] is (bound["measured"] <= bound["limit"])

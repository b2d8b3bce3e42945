"""What every test runs under, however pytest was started: no network, telemetry, real keys or clock."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.s3_server import CREDENTIALS, new_root, s3_server

# Read when ray is imported: its crash handler would take the SIGSEGV that a JVM raises for itself.
os.environ.setdefault("RAY_DISABLE_FAILURE_SIGNAL_HANDLER", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.pop("OPENAI_API_KEY", None)
for name in [name for name in os.environ if name.startswith("AWS_")]:
    del os.environ[name]
os.environ.update(CREDENTIALS)

# The background job of a shell begins with it ignored, and hands that on to every process of a test.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Speed is measured in benchmarks: a slow example on a busy machine is no fault.
settings.register_profile("mrag", deadline=None)
settings.load_profile("mrag")

_STATUS = pytest.StashKey[int]()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    session.config.stash[_STATUS] = exitstatus


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Ray keeps a thread of a Serve that was shut down; in a usual exit it now and then ends in abort()."""
    if "ray.serve" in sys.modules and _STATUS in config.stash and not hasattr(config, "workerinput"):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(config.stash[_STATUS])


@pytest.fixture(scope="session")
def s3_host() -> Iterator[str]:
    """An S3 server, for the session."""
    with s3_server() as host:
        yield host


@pytest.fixture
def s3_root(s3_host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The address of collections in a bucket of the test's own, with a machine of its own."""
    monkeypatch.setenv("MRAG_HOME", str(tmp_path / "home"))
    return new_root(s3_host)

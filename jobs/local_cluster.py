"""A Ray cluster on this machine that nobody else uses: started on free ports, stopped without a trace."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from mrag.errors import MragError

START_TIMEOUT_S = 300.0
END_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Cluster:
    """Where the head listens, for drivers and for the Jobs API, and what its clients' environment needs."""

    address: str
    dashboard: str
    environment: Mapping[str, str]


def tool(name: str) -> str:
    """A console script of this interpreter's environment."""
    return str(Path(sys.executable).with_name(name))


def free_port(preferred: int) -> int:
    """`preferred` where nobody listens there, else any free port."""
    for port in (preferred, 0):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise MragError("No port is free on this machine.")


@contextlib.contextmanager
def process(
    command: list[str], log: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """A child in a session of its own, ended with all that it started when the block is left."""
    with log.open("wb") as output:
        child = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield child
    finally:
        end(child)


def end(child: subprocess.Popen[bytes]) -> None:
    """Kills it and its descendants: nothing here has anything to save, and Ray ends in half a minute."""
    family: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(child.pid)
        family = [parent, *parent.children(recursive=True)]
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)  # Orphans of a child that died before.
    child.wait()
    psutil.wait_procs(family, timeout=END_TIMEOUT_S)


@contextlib.contextmanager
def forgotten(port: int) -> Iterator[None]:
    """Around a head: a killed one leaves its address behind, where later programs look for a cluster."""
    try:
        yield
    finally:
        file = Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray", "ray_current_cluster")
        with contextlib.suppress(OSError):
            if file.read_text().strip().endswith(f":{port}"):
                file.unlink()


@contextlib.contextmanager
def ray_head(logs: Path) -> Iterator[Cluster]:
    """Starts a head on loopback, with a token that only its clients know, and stops it again."""
    environment = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    port, dashboard, agent = free_port(6379), free_port(8265), free_port(52365)
    command = [
        *(tool("ray"), "start", "--head", "--block", "--disable-usage-stats"),
        *("--node-ip-address=127.0.0.1", f"--port={port}"),
        *("--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}"),
        f"--dashboard-agent-listen-port={agent}",
    ]
    token = environment["RAY_AUTH_TOKEN"]
    with forgotten(port), process(command, logs / "ray.log", environment) as child:
        wait_for(f"http://127.0.0.1:{dashboard}/api/version", child, logs / "ray.log", token)
        # The agent runs jobs, and is up after the dashboard that takes them.
        wait_for(f"http://127.0.0.1:{agent}/api/healthz", child, logs / "ray.log", token)
        yield Cluster(f"127.0.0.1:{port}", f"http://127.0.0.1:{dashboard}", environment)


def wait_for(url: str, child: subprocess.Popen[bytes], log: Path, token: str) -> None:
    """Returns when the URL answers; MragError, with the end of the log, when the child dies or time is up.

    A stranger that took the port in the meantime refuses the token, and is not taken for the child.
    """
    headers = {"Authorization": f"Bearer {token}"}

    def answers() -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(url, timeout=5, headers=headers).is_success
        return False

    wait_until(answers, url, child, log)


def wait_until(ready: Callable[[], bool], name: str, child: subprocess.Popen[bytes], log: Path) -> None:
    """Returns when it is so; MragError as `wait_for`, which calls what did not come up by this name."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and child.poll() is None:
        if ready():
            return
        time.sleep(0.5)
    tail = "\n".join(log.read_text("utf-8", "replace").splitlines()[-15:])
    raise MragError(f"{name} did not come up: try again. The end of its log, {log}, says:\n{tail}")

"""Jobs by Ray's job API: each is a process of its own on the cluster that the service runs on."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import ray
from ray._private.services import get_webui_url_from_internal_kv
from ray.exceptions import RayError
from ray.job_submission import JobDetails, JobSubmissionClient

from serve.calls import JobsMissingError, StageDownError
from serve.connection import WITH_JAVA
from serve.job_desk import Known
from serve.job_values import State, packed

ORDER = "MRAG_JOB_ORDER"
ADDED = WITH_JAVA["env_vars"]  # by the job itself: Ray refuses a variable that both name
TIMEOUT_S = 30.0
KIND, COLLECTION = "mrag_kind", "mrag_collection"
ENTRYPOINT = f"{shlex.quote(sys.executable)} -m jobs.asked"
STATES: Mapping[str, State] = {
    "PENDING": "pending",
    "RUNNING": "running",
    "STOPPED": "cancelled",
    "SUCCEEDED": "done",
    "FAILED": "failed",
}
_log = logging.getLogger(__name__)


class RayJobs:
    """A `Runner`. Nothing of what a caller sent becomes part of a command: an order is a variable's value."""

    def __init__(self) -> None:
        self._client: JobSubmissionClient | None = None

    async def submit(self, job: Known, order: str) -> None:
        """As `Runner` has it."""
        await self._ask(
            lambda client: client.submit_job(
                entrypoint=ENTRYPOINT,
                submission_id=job.id,
                metadata={KIND: job.kind, COLLECTION: job.collection},
                runtime_env=runtime_environment(order),
            )
        )

    async def jobs(self) -> Sequence[Known]:
        """As `Runner` has it; those that others submitted to the cluster are not among them."""
        return [
            _known(details)
            for details in await self._ask(lambda client: client.list_jobs())
            if details.submission_id and KIND in (details.metadata or {})
        ]

    async def log(self, job_id: str) -> str:
        """As `Runner` has it; empty where the job's node is gone."""
        try:
            log: str = await self._ask(lambda client: client.get_job_logs(job_id))
        except StageDownError:
            return ""
        return log

    async def stop(self, job_id: str) -> None:
        """As `Runner` has it."""
        await self._ask(lambda client: client.stop_job(job_id))

    async def _ask(self, work: Any) -> Any:
        """In a thread: Ray's client waits for replies. Its sentences name addresses, and stay in the log."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await asyncio.to_thread(lambda: work(self._connected()))
        except (OSError, RuntimeError, ValueError, RayError, TimeoutError) as error:
            self._client = None
            _log.warning("Ray's job API did not do what it was asked: %s", error)
            raise StageDownError("The cluster's job API does not answer: try again in a moment.") from None

    def _connected(self) -> JobSubmissionClient:
        """Raises JobsMissingError for a Ray without a dashboard.

        Such a Ray nevertheless names the dashboard's usual address, where another cluster's may listen: what
        counts is the address of the web page, which is empty then.
        """
        if self._client is None:
            page = get_webui_url_from_internal_kv()
            if not page:
                raise JobsMissingError
            self._client = JobSubmissionClient(f"http://{page}")
        return self._client


def _known(details: JobDetails) -> Known:
    about = details.metadata
    began, ended = (_instant(at) for at in (details.start_time, details.end_time))
    state = STATES[details.status.value]
    return Known(details.submission_id, about[KIND], about.get(COLLECTION, ""), state, began, ended)


def _instant(milliseconds: int | None) -> datetime | None:
    return datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds else None


def runtime_environment(order: str) -> dict[str, Any]:
    """The order, the variables of the service, and where the job's modules are: in its working directory.

    One that was uploaded is used again; where the service runs from a folder, every node has that.
    """
    own = ray.get_runtime_context().runtime_env
    variables = {name: value for name, value in own.get("env_vars", {}).items() if name not in ADDED}
    variables[ORDER] = packed(order)
    if folder := own.get("working_dir"):
        return {"working_dir": folder, "env_vars": variables}
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = dict.fromkeys([str(Path(__file__).parents[1]), *filter(None, known)])
    return {"env_vars": {**variables, "PYTHONPATH": os.pathsep.join(path)}}

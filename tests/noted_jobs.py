"""A runner of jobs over HTTP that notes them, and runs none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from mrag.errors import MragError
from serve.job_desk import Known
from serve.job_values import Line, Order, State

START = datetime(2024, 3, 1, tzinfo=UTC)


class Cluster:
    """Notes the jobs, and runs none."""

    def __init__(self, error: MragError | None = None) -> None:
        self.known: dict[str, Known] = {}
        self.orders: list[Order] = []
        self.logs: dict[str, str] = {}
        self.error = error

    async def submit(self, job: Known, order: str) -> None:
        self.orders.append(Order.model_validate_json(order))
        self.known[job.id] = replace(job, began=START + timedelta(seconds=len(self.known)))

    async def jobs(self) -> Sequence[Known]:
        if self.error:
            raise self.error
        return list(self.known.values())

    async def log(self, job_id: str) -> str:
        return self.logs.get(job_id, "")

    async def stop(self, job_id: str) -> None:
        self.end(job_id, "cancelled")

    def end(self, job_id: str, status: State, *lines: Line | str) -> None:
        self.known[job_id] = replace(self.known[job_id], status=status)
        written = [line if isinstance(line, str) else line.written() for line in lines]
        self.logs[job_id] = "".join(f"{line}\n" for line in written)

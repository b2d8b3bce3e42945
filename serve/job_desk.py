"""Jobs for visitors: what they ask is checked, and they see those over collections that they may see."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from mrag.collection.filter_forms import parse_filter
from mrag.documents.jail import jailed
from mrag.errors import InputError, NotFoundError, SettingsError
from mrag.settings import Settings, parse_settings
from serve.access import Visitor
from serve.calls import JobsMissingError, StageDownError
from serve.desk import Desk
from serve.faults import Fault
from serve.job_values import DeleteBody, IndexBody, Job, Kind, Order, State, SyncBody, packed, told_in

# Of an order as it travels: in a variable that others stand beside. Linux takes 128 KiB for all of them.
MAX_ORDER_BYTES = 90_000
LINES = 20
ENDED = ("done", "failed", "cancelled")
LOST = "The job ended without a report: its log on the cluster says more."
_ID = re.compile(r"mrag-[0-9a-f]{32}")


@dataclass(frozen=True)
class Known:
    """One job as the cluster knows it."""

    id: str
    kind: Kind
    collection: str
    status: State
    began: datetime | None = None
    ended: datetime | None = None

    def told(self) -> Job:
        """Without its log."""
        return Job(**vars(self))


class Runner(Protocol):
    """Where jobs run. Raises JobsMissingError where that is nowhere, and StageDownError where it is down."""

    def submit(self, job: Known, order: str) -> Awaitable[None]:
        """Begins with it; the order is the JSON of an `Order`."""

    def jobs(self) -> Awaitable[Sequence[Known]]:
        """All that were submitted here."""

    def log(self, job_id: str) -> Awaitable[str]:
        """All that it has written."""

    def stop(self, job_id: str) -> Awaitable[None]:
        """Ends it early; nothing to do where it has ended."""


class NoRunner:
    """The `Runner` of an application that stands on no cluster."""

    async def submit(self, job: Known, order: str) -> None:
        """Never."""
        raise JobsMissingError

    async def jobs(self) -> Sequence[Known]:
        """None."""
        raise JobsMissingError

    async def log(self, job_id: str) -> str:
        """None."""
        raise JobsMissingError

    async def stop(self, job_id: str) -> None:
        """Never."""
        raise JobsMissingError


class JobDesk:
    """Where jobs are asked for. Another's collection, and a job over one, is told to be unknown."""

    def __init__(self, desk: Desk, runner: Runner, settings: Settings) -> None:
        self._desk = desk
        self._runner = runner
        self._settings = settings
        self._turn = asyncio.Lock()

    async def submit(self, visitor: Visitor, body: IndexBody | SyncBody | DeleteBody) -> Job:
        """Begins with it. Raises InputError for what can't be done, StageDownError while enough run."""
        name = self._desk.default_collection if body.collection is None else body.collection
        if isinstance(body, DeleteBody):
            await self._desk.overview(visitor, name)
        self._desk.admit(visitor, name)
        order = await asyncio.to_thread(ordered, self._settings, name, body)
        job = Known(f"mrag-{uuid.uuid4().hex}", body.kind, name, "pending")
        async with self._turn:
            under_way = [one for one in await self._runner.jobs() if one.status not in ENDED]
            if len(under_way) >= self._settings.serve.jobs.at_once:
                raise StageDownError(
                    "As many jobs as may run at once are under way: try again when one ended."
                )
            await self._runner.submit(job, order)
        visitor.told.update(job=job.id, kind=job.kind, collection=name)
        return job.told()

    async def jobs(self, visitor: Visitor, limit: int) -> list[Job]:
        """The youngest of those that the visitor may know of."""
        known = [one for one in await self._runner.jobs() if visitor.key.sees(one.collection)]
        known.sort(key=lambda one: one.began.timestamp() if one.began else float("inf"), reverse=True)
        return [one.told() for one in known[:limit]]

    async def job(self, visitor: Visitor, job_id: str) -> Job:
        """One of them, with what its log says. Raises NotFoundError (field `job`)."""
        known = await self._known(visitor, job_id)
        lines = told_in(await self._runner.log(job_id))
        job = known.told()
        job.progress = [line.progress for line in lines if line.progress is not None][-LINES:]
        job.report = next((line.report for line in lines if line.report is not None), None)
        job.error = next((line.error for line in lines if line.error), None)
        if job.status == "failed" and not (job.report or job.error):
            job.error = Fault(code="internal", message=LOST)
        return job

    async def cancel(self, visitor: Visitor, job_id: str) -> Job:
        """Ends it early, and tells it as it is then: a job takes a moment to end."""
        known = await self._known(visitor, job_id)
        if known.status not in ENDED:
            await self._runner.stop(job_id)
        return await self.job(visitor, job_id)

    async def _known(self, visitor: Visitor, job_id: str) -> Known:
        for one in await self._runner.jobs() if _ID.fullmatch(job_id) else ():
            if one.id == job_id and visitor.key.sees(one.collection):
                visitor.told.update(job=one.id, kind=one.kind, collection=one.collection)
                return one
        raise NotFoundError("job", "There is no such job, or none that you may see: GET /v1/jobs lists them.")


def ordered(settings: Settings, name: str, body: IndexBody | SyncBody | DeleteBody) -> str:
    """The order as JSON. Raises InputError for a folder, a filter or a name that can't be used."""
    if isinstance(body, DeleteBody):
        parse_filter(body.filter or {})
        if not (body.ids or body.filter):
            raise InputError("ids", "Name the documents to delete, by their ids or by a filter.")
    else:
        folder = jailed(body.folder, settings.serve.jobs.roots)
        body = body.model_copy(update={"folder": str(folder)})
    try:
        order = Order(settings=settings_for_job(settings, name), asked=body).model_dump_json()
    except ValueError:
        raise InputError("ids", "Half a character stands in the ids or in the filter: send text.") from None
    if len(packed(order)) > MAX_ORDER_BYTES:
        raise InputError("ids", "That is too long for one job: delete by a filter, or in several jobs.")
    return order


def settings_for_job(settings: Settings, name: str) -> dict[str, object]:
    """Those of the service for a job over one collection, as plain values, without what it does not need."""
    tree = settings.model_dump(mode="json")
    tree["collection"]["name"] = name
    tree["serve"] = {"jobs": tree["serve"]["jobs"]}
    tree["job"]["served"] = settings.serve.jobs.served and settings.extractor is None
    try:
        parse_settings(tree)
    except SettingsError:
        raise InputError(
            "collection", "A collection's name has letters, digits, `_`, `.` and `-`, 64 of them at most."
        ) from None
    return tree

"""`/v1/jobs`: indexing, synchronising and deleting, by scope `write`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from serve.access import Guard, Visitor
from serve.handlers import BODY, JOBS, MODEL, documented
from serve.job_desk import JobDesk
from serve.job_values import Job, JobBody, Jobs


def job_routes(desk: JobDesk, guard: Guard) -> APIRouter:
    """Submit, list, follow and cancel."""
    v1 = APIRouter(prefix="/v1/jobs", tags=["jobs"])
    writer = Depends(guard.needs("write"))

    @v1.post("", status_code=202, summary="Submit a job", responses=documented(*MODEL, also=JOBS))
    async def submit(body: JobBody, visitor: Visitor = writer) -> Job:
        return await desk.submit(visitor, body)

    @v1.get("", summary="The jobs", responses=documented(*BODY, *MODEL, 400, 404, also=JOBS))
    async def jobs(
        visitor: Visitor = writer,
        limit: Annotated[int, Query(ge=1, le=1000, description="Most jobs, the youngest first.")] = 100,
    ) -> Jobs:
        return Jobs(jobs=await desk.jobs(visitor, limit))

    errors = documented(*BODY, *MODEL, 400, also=JOBS)

    @v1.get("/{job}", summary="How far a job is, and what came of it", responses=errors)
    async def job(job: str, visitor: Visitor = writer) -> Job:
        return await desk.job(visitor, job)

    @v1.delete("/{job}", summary="Cancel a job", responses=errors)
    async def cancel(job: str, visitor: Visitor = writer) -> Job:
        return await desk.cancel(visitor, job)

    return v1

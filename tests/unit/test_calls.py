"""Calls to other deployments: what Ray lost is a stage that is down, and nobody's work goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

import pytest
from ray.exceptions import (
    ActorDiedError,
    ObjectLostError,
    OutOfMemoryError,
    OwnerDiedError,
    RayTaskError,
    WorkerCrashedError,
)
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError

from mrag.errors import NotFoundError
from serve.calls import StageDownError, call, plain


class Reply:
    """What a handle's method gives: it can be awaited, and cancelled."""

    def __init__(self, error: Exception | None = None) -> None:
        self.cancelled = False
        self._error = error

    def __await__(self) -> Generator[Any, None, Any]:
        if self._error:
            raise self._error
        yield from asyncio.sleep(60).__await__()

    def cancel(self) -> None:
        self.cancelled = True


class Method:
    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    def remote(self) -> Reply:
        return self._reply


async def test_work_that_nobody_waits_for_is_cancelled() -> None:
    reply = Reply()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await call(Method(reply))
    assert reply.cancelled


def lost(kind: type[Exception]) -> Exception:
    return kind("0" * 56, None, "")


@pytest.mark.parametrize(
    "error",
    [
        ActorDiedError(),
        WorkerCrashedError(),
        OutOfMemoryError("no memory"),
        lost(ObjectLostError),
        lost(OwnerDiedError),
        BackPressureError(num_queued_requests=9, max_queued_requests=8),
        DeploymentUnavailableError(None),  # type: ignore[arg-type]
    ],
    ids=lambda error: type(error).__name__,
)
async def test_what_ray_lost_is_a_stage_that_is_down(error: Exception) -> None:
    for raised in (error, RayTaskError("retrieve", "traceback", error)):
        reply = Reply(raised)
        with pytest.raises(StageDownError, match="try again"):
            await call(Method(reply))
        assert not reply.cancelled


async def test_what_the_core_raised_comes_back() -> None:
    gone = NotFoundError("collection", "There is none.")
    with pytest.raises(NotFoundError, match="There is none"):
        await call(Method(Reply(RayTaskError("retrieve", "traceback", gone))))
    fault = RayTaskError("retrieve", "traceback", ValueError("a fault of ours"))
    assert plain(fault) is fault

"""Calling another deployment so that its errors arrive as what they were, one sentence each."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from ray.exceptions import RayError, RayTaskError
from ray.serve.exceptions import (
    BackPressureError,
    DeploymentUnavailableError,
    RayServeException,
    ReplicaUnavailableError,
)

from mrag.errors import ModelError, ModelTimeoutError, MragError, UnreachableError
from serve.sentences import sentence_of
from serve.tracing import traced

# The name of the service's application on its cluster, as in cluster/serve.yaml.
APPLICATION = "mrag"


class StageDownError(UnreachableError):
    """A deployment of the graph can't be reached, or turned the request away."""


class JobsMissingError(MragError):
    """No job can be run where the service is."""

    def __init__(self) -> None:
        super().__init__(
            "Jobs are run by Ray's job API, which this cluster does not have: start Ray with its dashboard."
        )


@dataclass(frozen=True)
class Limit:
    """How long one call of a deployment may take, and its name in the settings; None: as long as it takes."""

    deployment: str
    timeout_s: float | None

    @contextlib.asynccontextmanager
    async def __call__(self) -> AsyncIterator[None]:
        """Raises ModelTimeoutError when the time is over, and cancels what runs."""
        limit = asyncio.timeout(self.timeout_s)
        try:
            async with limit:
                yield
        except TimeoutError:
            if not limit.expired():
                raise
            setting = f"serve.{self.deployment}.timeout_s"
            raise ModelTimeoutError(
                f"The time for one call is over, {self.timeout_s:g} s: raise {setting}."
            ) from None


UNLIMITED = Limit("", None)


async def call(method: Any, *arguments: Any, limit: Limit = UNLIMITED) -> Any:
    """The reply of a handle's method; cancelling this coroutine cancels the work behind it.

    Raises what the core object raised, StageDownError where no replica answered, and ModelTimeoutError.
    """
    reply = method.remote(*arguments)
    async with limit():
        try:
            return await reply
        except asyncio.CancelledError:
            reply.cancel()  # Ray leaves the work running that nobody waits for.
            raise
        except (RayError, RayServeException) as error:
            raise plain(error) from None


def staged(name: str, method: Any, limit: Limit = UNLIMITED) -> Callable[..., Awaitable[Any]]:
    """A handle's method as a stage of the pipeline, which is traced under this name."""

    def stage(*arguments: Any) -> Awaitable[Any]:
        return traced(name, call(method, *arguments, limit=limit))

    return stage


def told(name: str, method: Any, limit: Limit = UNLIMITED) -> Callable[..., Awaitable[Any]]:
    """A handle's streaming method as a stage that tells: its last argument is given each piece of text."""

    async def pieced(*arguments: Any) -> Any:
        *given, tell = arguments
        result = None
        async with limit(), contextlib.aclosing(iterate(method, *given)) as items:
            async for item in items:
                if isinstance(item, str):
                    tell(item)
                else:
                    result = item
        if result is None:
            raise StageDownError("A stage of the service ended early: try again in a moment.")
        return result

    return lambda *arguments: traced(name, pieced(*arguments))


async def iterate(method: Any, *arguments: Any) -> AsyncGenerator[Any, None]:
    """The pieces of a handle's streaming method, with the errors of `call`."""
    replies = method.options(stream=True).remote(*arguments)
    try:
        async for piece in replies:
            yield piece
    except (RayError, RayServeException) as error:
        raise plain(error) from None
    except (GeneratorExit, asyncio.CancelledError):
        replies.cancel()  # Nobody waits for the rest.
        raise


def plain(error: Exception) -> Exception:
    """The error behind Ray's wrapping.

    What Ray itself lost (a replica, a node, a value) is a stage that is down.
    """
    cause = error.cause if isinstance(error, RayTaskError) else error
    if isinstance(cause, ModelError):
        cause.args = (sentence_of(cause),)  # Answers without the stage repeat it in their notes.
    if isinstance(cause, MragError):
        return cause
    if isinstance(cause, BackPressureError):
        return StageDownError("The service is busy: try again in a moment.")
    lost = isinstance(cause, RayError) and not isinstance(cause, RayTaskError)
    if lost or isinstance(cause, DeploymentUnavailableError | ReplicaUnavailableError):
        return StageDownError("A stage of the service is restarting: try again in a moment.")
    return error

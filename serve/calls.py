"""Calling another deployment so that its errors arrive as what they were, one sentence each."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import Any

from ray.exceptions import RayError, RayTaskError
from ray.serve.exceptions import (
    BackPressureError,
    DeploymentUnavailableError,
    RayServeException,
    ReplicaUnavailableError,
)

from mrag.errors import ModelError, MragError

# The name of the service's application on its cluster, as in cluster/serve.yaml.
APPLICATION = "mrag"


class StageDownError(ModelError):
    """A deployment of the graph can't be reached, or turned the request away."""


async def call(method: Any, *arguments: Any) -> Any:
    """The reply of a handle's method; cancelling this coroutine cancels the work behind it.

    Raises what the core object raised, and StageDownError where no replica answered.
    """
    reply = method.remote(*arguments)
    try:
        return await reply
    except asyncio.CancelledError:
        reply.cancel()  # Ray leaves the work running that nobody waits for.
        raise
    except (RayError, RayServeException) as error:
        raise plain(error) from None


def staged(method: Any) -> Callable[..., Awaitable[Any]]:
    """A handle's method as a stage of the pipeline."""
    return partial(call, method)


def told(method: Any) -> Callable[..., Awaitable[Any]]:
    """A handle's streaming method as a stage that tells: its last argument is given each piece of text."""

    async def stage(*arguments: Any) -> Any:
        *given, tell = arguments
        result = None
        async with contextlib.aclosing(iterate(method, *given)) as items:
            async for item in items:
                if isinstance(item, str):
                    tell(item)
                else:
                    result = item
        if result is None:
            raise StageDownError("A stage of the service ended early: try again in a moment.")
        return result

    return stage


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
    if isinstance(cause, MragError):
        return cause
    if isinstance(cause, BackPressureError):
        return StageDownError("The service is busy: try again in a moment.")
    lost = isinstance(cause, RayError) and not isinstance(cause, RayTaskError)
    if lost or isinstance(cause, DeploymentUnavailableError | ReplicaUnavailableError):
        return StageDownError("A stage of the service is restarting: try again in a moment.")
    return error

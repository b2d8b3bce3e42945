"""The graph as Ray Serve sees it."""

from __future__ import annotations

import asyncio

from ray import serve as ray_serve
from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException
from ray.serve.schema import ReplicaState

from serve.calls import APPLICATION, plain
from serve.service_routes import DeploymentState


async def deployments() -> list[DeploymentState]:
    """Those of the service, by name; their messages stay in Ray's own dashboard and logs.

    Raises StageDownError where Ray Serve does not answer.
    """
    try:
        return await asyncio.to_thread(_deployments)
    except (RayError, RayServeException) as error:
        raise plain(error) from None


def _deployments() -> list[DeploymentState]:
    application = ray_serve.status().applications.get(APPLICATION)
    found = application.deployments if application else {}
    return [
        DeploymentState(
            name=name,
            status=found[name].status.value,
            # Ray's annotation says that the keys are states; they are the words.
            replicas={
                ReplicaState(state).value: count for state, count in found[name].replica_states.items()
            },
        )
        for name in sorted(found)
    ]

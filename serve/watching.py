"""The graph as Ray Serve sees it."""

from __future__ import annotations

import asyncio

from ray import serve as ray_serve

from serve.calls import APPLICATION
from serve.service_routes import DeploymentState


async def deployments() -> list[DeploymentState]:
    """Those of the service, by name; their messages stay in Ray's own dashboard and logs."""
    return await asyncio.to_thread(_deployments)


def _deployments() -> list[DeploymentState]:
    application = ray_serve.status().applications.get(APPLICATION)
    found = application.deployments if application else {}
    return [
        DeploymentState(
            name=name,
            status=found[name].status.value,
            replicas={state.value: count for state, count in found[name].replica_states.items() if count},
        )
        for name in sorted(found)
    ]

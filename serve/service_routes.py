"""What only those may see and do who look after the whole service: scope `admin`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from mrag import __version__
from mrag.query.library import Reloaded
from serve.access import Guard, Visitor
from serve.desk import Desk
from serve.handlers import BODY, MODEL, documented


class DeploymentState(BaseModel):
    """One deployment of the graph, as Ray Serve tells it."""

    name: str
    status: str = Field(description="HEALTHY, UPDATING, UNHEALTHY and the like.")
    replicas: dict[str, int] = Field(description="How many of its replicas are in which state.")


class ServiceState(BaseModel):
    """The whole service; without a graph behind it, as in a test, there are no deployments."""

    status: Literal["ok", "degraded"]
    version: str = __version__
    deployments: list[DeploymentState]


Watch = Callable[[], Awaitable[list[DeploymentState]]]


async def unwatched() -> list[DeploymentState]:
    """Of an application that no graph stands behind."""
    return []


def service_routes(desk: Desk, guard: Guard, watch: Watch) -> APIRouter:
    """The state of the graph, and the reloading of a collection."""
    v1 = APIRouter(prefix="/v1", tags=["service"])
    admin = Depends(guard.needs("admin"))
    errors = documented(*BODY, *MODEL, 400, 404, 422)

    @v1.get("/service", summary="The deployments and their replicas", responses=errors)
    async def service(_: Visitor = admin) -> ServiceState:
        found = await watch()
        healthy = all(one.status == "HEALTHY" for one in found)
        return ServiceState(status="ok" if healthy else "degraded", deployments=found)

    @v1.post(
        "/collections/{name}/reload",
        summary="Open the generation in force now",
        responses=documented(*BODY, *MODEL),
    )
    async def reload(name: str, visitor: Visitor = admin) -> Reloaded:
        return await desk.reload(visitor, name)

    return v1

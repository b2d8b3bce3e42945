"""The state of the graph, from what Ray Serve says of it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ray.exceptions import ActorDiedError
from ray.serve.schema import (
    ApplicationStatus,
    ApplicationStatusOverview,
    DeploymentStatus,
    DeploymentStatusOverview,
    DeploymentStatusTrigger,
    ReplicaState,
)

import serve.watching
from serve.calls import APPLICATION, StageDownError
from serve.service_routes import DeploymentState
from serve.watching import deployments


def overview(status: DeploymentStatus, states: dict[object, int]) -> DeploymentStatusOverview:
    return DeploymentStatusOverview(
        status,
        DeploymentStatusTrigger.UNSPECIFIED,
        states,
        "/srv/secret",  # type: ignore[arg-type]
    )


async def test_deployments_are_told_by_name_with_the_states_of_their_replicas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = {
        "Selector": overview(DeploymentStatus.UPDATING, {"RUNNING": 1, "STARTING": 2}),
        "Encoder": overview(DeploymentStatus.HEALTHY, {ReplicaState.RUNNING: 1}),
    }
    application = ApplicationStatusOverview(ApplicationStatus.RUNNING, "", 0.0, found)
    status = SimpleNamespace(applications={APPLICATION: application, "other": application})
    monkeypatch.setattr(serve.watching.ray_serve, "status", lambda: status)
    assert await deployments() == [
        DeploymentState(name="Encoder", status="HEALTHY", replicas={"RUNNING": 1}),
        DeploymentState(name="Selector", status="UPDATING", replicas={"RUNNING": 1, "STARTING": 2}),
    ]
    status.applications.clear()
    assert await deployments() == []


async def test_a_serve_that_does_not_answer_is_told_to_be_down(monkeypatch: pytest.MonkeyPatch) -> None:
    def dead() -> None:
        raise ActorDiedError

    monkeypatch.setattr(serve.watching.ray_serve, "status", dead)
    with pytest.raises(StageDownError):
        await deployments()

"""What comes back from a job's workers when they fail."""

from __future__ import annotations

from ray.exceptions import RayTaskError

from mrag.errors import MragError


def cause(error: RayTaskError) -> Exception:
    """What was raised in a worker, where that is an expected error; else Ray's own, with its traceback."""
    return error.cause if isinstance(error.cause, MragError) else error

"""Joining the cluster of a job, and the errors that come back from its workers."""

from __future__ import annotations

import logging

import ray
from ray.exceptions import RayTaskError

from mrag.errors import MragError

# Lucene's machine uses SIGSEGV for itself: where Ray catches it too, the worker dies.
WITH_JAVA = {"env_vars": {"RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1"}}


def connect(address: str | None = None) -> None:
    """Joins the cluster at the address; by default that of the job, or one of this process."""
    ray.init(address, logging_level=logging.WARNING, log_to_driver=False, runtime_env=WITH_JAVA)


def cause(error: RayTaskError) -> Exception:
    """What was raised in a worker, where that is an expected error; else Ray's own, with its traceback."""
    return error.cause if isinstance(error.cause, MragError) else error

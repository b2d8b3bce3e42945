"""Joining a Ray cluster whose workers search."""

from __future__ import annotations

import logging

import ray

# Lucene's machine uses SIGSEGV for itself: where Ray catches it too, the worker dies.
WITH_JAVA = {"env_vars": {"RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1"}}


def connect(address: str | None = None) -> None:
    """Joins the cluster at the address; by default that of the job, or one of this process."""
    ray.init(address, logging_level=logging.WARNING, log_to_driver=False, runtime_env=WITH_JAVA)

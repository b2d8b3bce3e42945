"""The cap of a job: one actor counts for all extractors."""

from __future__ import annotations

from typing import Any

import ray
from ray.exceptions import RayTaskError

from jobs.connection import cause
from mrag.indexing.cap import TokenCap


def start_cap(limit: int) -> Any:
    """The handle of an actor that holds the cap of `limit` tokens; a call that waits blocks no other."""
    return ray.remote(TokenCap).options(num_cpus=0, max_concurrency=10_000).remote(limit)


class RemoteMeter:
    """The `Meter` behind a handle."""

    def __init__(self, cap: Any) -> None:
        self._cap = cap

    async def reserve(self, tokens: int) -> None:
        """As `TokenCap.reserve`, with its error."""
        try:
            await self._cap.reserve.remote(tokens)
        except RayTaskError as error:
            raise cause(error) from None

    async def settle(self, reserved: int, spent: int) -> None:
        """As `TokenCap.settle`."""
        await self._cap.settle.remote(reserved, spent)

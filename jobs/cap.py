"""The cap of a job: one actor counts for all extractors."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from jobs.causes import cause
from mrag.errors import CapReachedError
from mrag.indexing.cap import SharedCap

SIGN_OF_LIFE_S = 10.0
SILENCE_S = 60.0  # An extractor that reads a long document gives no signs meanwhile.


def start_cap(limit: int, silence_s: float = SILENCE_S) -> Any:
    """The handle of an actor that holds the cap of `limit` tokens; a call that waits blocks no other.

    It is not restarted: another would have forgotten what was spent.
    """
    return ray.remote(SharedCap).options(num_cpus=0, max_concurrency=10_000).remote(limit, silence_s)


class RemoteMeter:
    """The `Meter` behind a handle. It gives signs of life as long as it has tokens set aside."""

    def __init__(self, cap: Any) -> None:
        self._cap = cap
        self._name = uuid.uuid4().hex
        self._open = 0
        self._signs: asyncio.Task[None] | None = None
        self._returning: set[asyncio.Task[None]] = set()

    async def reserve(self, tokens: int) -> None:
        """As `SharedCap.reserve`, with its error, which comes too where the count is lost."""
        asked = self._cap.reserve.remote(self._name, tokens)
        try:
            await asked
        except asyncio.CancelledError:
            returning = asyncio.create_task(self._give_back(asked, tokens))
            self._returning.add(returning)
            returning.add_done_callback(self._returning.discard)
            raise
        except RayTaskError as error:
            raise cause(error) from None
        except RayError:
            raise CapReachedError(
                "The count of LLM tokens is lost, and with it the cap: run again with a new cap to go on."
            ) from None
        self._open += 1
        if self._signs is None or self._signs.done():
            self._signs = asyncio.create_task(self._give_signs())

    async def settle(self, reserved: int, spent: int) -> None:
        """As `SharedCap.settle`; nothing where the count is lost, since no more is asked then."""
        self._open -= 1
        with contextlib.suppress(RayError):
            await self._cap.settle.remote(self._name, reserved, spent)

    async def _give_back(self, asked: Any, tokens: int) -> None:
        """What nobody waits for any more is not kept from others."""
        with contextlib.suppress(RayError):
            await asked
            await self._cap.settle.remote(self._name, tokens, 0)

    async def _give_signs(self) -> None:
        while self._open:
            await asyncio.sleep(SIGN_OF_LIFE_S)
            self._cap.lives.remote(self._name)

"""The cap that the extractors of a job share, and what becomes of it when one side of it dies."""

from __future__ import annotations

import asyncio

import pytest
import ray

from jobs import cap as module
from jobs.cap import RemoteMeter, start_cap
from mrag.errors import CapReachedError

pytestmark = pytest.mark.usefixtures("cluster")


class Extractor:
    """Sets tokens aside in a process of its own."""

    def __init__(self, cap: object) -> None:
        self._meter = RemoteMeter(cap)

    async def reserve(self, tokens: int) -> None:
        await self._meter.reserve(tokens)


async def test_what_a_killed_extractor_had_set_aside_keeps_nobody_waiting() -> None:
    cap = start_cap(100, silence_s=0.5)
    killed = ray.remote(Extractor).options(num_cpus=0).remote(cap)
    await killed.reserve.remote(60)
    ray.kill(killed)
    other = RemoteMeter(cap)
    with pytest.raises(CapReachedError, match="100 LLM tokens"):
        await asyncio.wait_for(other.reserve(60), 60)
    await asyncio.wait_for(other.reserve(40), 60)


async def test_where_the_count_is_lost_nothing_more_is_asked() -> None:
    cap = start_cap(100)
    meter = RemoteMeter(cap)
    await meter.reserve(10)
    ray.kill(cap)
    await meter.settle(10, 5)
    with pytest.raises(CapReachedError, match="lost"):
        await meter.reserve(10)


async def test_what_is_not_waited_for_any_more_is_given_back() -> None:
    cap = start_cap(100)
    meter = RemoteMeter(cap)
    await meter.reserve(60)
    waiting = asyncio.create_task(meter.reserve(60))
    await asyncio.sleep(0.2)
    waiting.cancel()
    await asyncio.wait([waiting])
    await meter.settle(60, 0)
    await asyncio.wait_for(meter.reserve(100), 60)


@pytest.mark.slow
async def test_a_slow_extractor_gives_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SIGN_OF_LIFE_S", 0.1)
    cap = start_cap(100, silence_s=3)
    slow, other = RemoteMeter(cap), RemoteMeter(cap)
    await slow.reserve(60)
    waiting = asyncio.create_task(other.reserve(60))
    await asyncio.sleep(6)
    assert not waiting.done()
    await slow.settle(60, 40)
    await asyncio.wait_for(waiting, 60)

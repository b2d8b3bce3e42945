"""When an endpoint is asked again, and how fast."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.models.retrying import Rate, Retries, retry_after_s


def waits(retries: Retries, status: int | None, headers: dict[str, str] | None = None) -> list[float]:
    """All waits of a request that is always refused."""
    found: list[float] = []
    while (wait := retries.wait_s(status, headers or {}, len(found), sum(found))) is not None:
        found.append(wait)
    return found


def test_the_default_outlasts_a_limit_by_the_minute() -> None:
    busy = waits(Retries(5, 300), 429)
    assert len(busy) == 5
    assert 60 < sum(busy) <= 93
    assert sum(waits(Retries(5, 300), 503)) < 20


@given(st.integers(0, 20), st.floats(0, 500), st.sampled_from([None, 408, 409, 429, 500, 529]))
def test_waiting_has_an_end(most: int, total_s: float, status: int | None) -> None:
    found = waits(Retries(most, total_s), status)
    assert len(found) <= most
    assert sum(found) <= total_s


def test_what_the_endpoint_asks_for_is_waited_for_within_the_bound() -> None:
    retries = Retries(1, 300)
    assert waits(retries, 429, {"retry-after": "70"}) == [70.0] * 4
    assert waits(retries, 429, {"retry-after": "301"}) == []
    assert waits(retries, 429, {"x-should-retry": "false"}) == []


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_what_can_never_succeed_is_not_asked_again(status: int) -> None:
    assert waits(Retries(5, 300), status, {"retry-after": "1"}) == []


def test_retry_after_is_seconds_or_a_date() -> None:
    assert retry_after_s({"retry-after": "2.5"}) == 2.5
    found = retry_after_s({"retry-after": formatdate(time.time() + 100, usegmt=True)})
    assert found is not None
    assert 90 < found <= 100
    for nonsense in ("", "0", "-3", "inf", "nan", "soon", formatdate(0, usegmt=True)):
        assert retry_after_s({"retry-after": nonsense}) is None


@given(st.lists(st.tuples(st.integers(1, 15), st.integers(0, 30)), max_size=30))
def test_no_minute_has_more_than_its_rate(asked: list[tuple[int, int]]) -> None:
    now, went = 0.0, list[tuple[float, int]]()

    async def wait_for(waiting: Coroutine[Any, Any, Any], seconds: float) -> None:
        nonlocal now
        waiting.close()
        now += seconds
        raise TimeoutError

    async def all_in_turn() -> None:
        nonlocal now
        rate = Rate(10, clock=lambda: now)
        for amount, pause in asked:
            now += pause
            await rate.take(amount)
            went.append((now, amount))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("asyncio.wait_for", wait_for)
        asyncio.run(all_in_turn())
    for start, amount in went:
        within = [other for at, other in went if start - 60 < at <= start]
        assert sum(within) <= 10 or within == [amount]


async def test_what_cost_less_makes_room_at_once() -> None:
    rate = Rate(100, clock=lambda: 0.0)
    await rate.take(90)
    waiting = asyncio.create_task(rate.take(80))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    rate.correct(90, 20)
    await asyncio.wait_for(waiting, 10)
    assert rate._wait_s(1) == 60

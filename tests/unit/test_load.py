"""What the load generator sends and counts. Speed is not asserted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Response

from jobs.load import Asked, Load, Reply, a_second, at_once
from tests.served import listening

NOBODY = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Answers with the status that it is asked for."""
    api = FastAPI()

    @api.post("/")
    async def answered(body: dict[str, Any]) -> Response:
        return Response(body["say"], body["status"])

    with listening(api) as address:
        yield address


def asking(status: int, say: str, expected: str = "") -> Asked:
    return Asked({"status": status, "say": say}, expected)


async def test_every_reply_is_counted_as_what_it_is(url: str) -> None:
    asked = [
        asking(200, "in 1962", "1962"),
        asking(200, "in 1962", "1963"),
        asking(503, "later"),
        asking(504, "too late"),
        asking(500, "torn"),
    ]
    load = await at_once(url, asked, clients=2, seconds=0.5)
    seen = Counter((reply.status, reply.right) for reply in load.replies)
    assert set(seen) == {(200, True), (200, False), (503, False), (504, False), (500, False)}
    assert load.refused == seen[503, False]
    assert load.lost == seen[200, False] + seen[500, False]
    assert len(load.accepted) == seen[200, True] + seen[200, False]


async def test_requests_of_a_rate_do_not_wait_for_answers(url: str) -> None:
    load = await a_second(url, [asking(200, "yes")], requests_per_s=20, seconds=0.5)
    assert 1 <= len(load.replies) <= 10
    assert load.lost == 0


async def test_where_nobody_listens_all_is_lost() -> None:
    load = await at_once(NOBODY, [asking(200, "yes")], clients=1, seconds=0.05)
    assert {reply.status for reply in load.replies} == {0}
    assert load.lost == len(load.replies) > 0
    assert load.percentile(0.5) == 0.0


def test_rates_and_percentiles_by_hand() -> None:
    ok = httpx.codes.OK
    replies = tuple(Reply(ok, True, 10.0 + n, (4 - n) / 2) for n in range(4))  # 2, 1.5, 1 and 0.5 s
    load = Load((*replies, Reply(503, False, 10.0, 0.1)), started=10.0, seconds=2.0)
    assert load.accepted == [0.5, 1.0, 1.5, 2.0]
    assert (load.percentile(0.5), load.percentile(0.99)) == (1.5, 2.0)
    assert load.per_s == 0.5  # The first alone was answered within the two seconds.

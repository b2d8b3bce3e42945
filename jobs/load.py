"""Questions put to a service from outside: so many at once, or so many a second whatever it answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count, cycle
from typing import Any

import httpx

BUSY, LATE = 503, 504

Send = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class Asked:
    """A body to be posted, and what must stand in the reply."""

    body: dict[str, Any]
    expected: str = ""


@dataclass(frozen=True)
class Reply:
    """What came of one request: its status (0: no answer came), when it was sent and how long it took."""

    status: int
    right: bool
    sent: float
    seconds: float


@dataclass(frozen=True)
class Load:
    """What came of all of them, over the `seconds` in which they were sent."""

    replies: tuple[Reply, ...]
    started: float
    seconds: float

    @property
    def accepted(self) -> list[float]:
        """Seconds that each answered request took, shortest first."""
        return sorted(reply.seconds for reply in self.replies if reply.status == httpx.codes.OK)

    @property
    def per_s(self) -> float:
        """Requests answered a second while requests were sent."""
        ended = self.started + self.seconds
        return sum(r.status == httpx.codes.OK and r.sent + r.seconds <= ended for r in self.replies) / (
            self.seconds
        )

    @property
    def refused(self) -> int:
        """Those that were told to come again."""
        return sum(reply.status == BUSY for reply in self.replies)

    @property
    def lost(self) -> int:
        """Those that were neither answered rightly nor told to come again, or that their time was over."""
        return sum(reply.status not in (BUSY, LATE) and not reply.right for reply in self.replies)

    def percentile(self, share: float) -> float:
        """Seconds within which that share of the answered ones was answered; 0 where none was."""
        accepted = self.accepted
        return accepted[min(int(share * len(accepted)), len(accepted) - 1)] if accepted else 0.0


async def at_once(url: str, asked: Sequence[Asked], clients: int, seconds: float) -> Load:
    """Clients that each send their next request when the last one is answered."""

    async def client(send: Send, ended: float) -> None:
        while time.perf_counter() < ended:
            await send()

    async with _sending(url, asked) as (send, replies):
        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(client(send, started + seconds))
    return Load(tuple(replies), started, seconds)


async def a_second(url: str, asked: Sequence[Asked], requests_per_s: float, seconds: float) -> Load:
    """Requests at even distances, whether or not the ones before are answered; waits for all of them."""
    async with _sending(url, asked) as (send, replies):
        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for number in count():
                wait = started + number / requests_per_s - time.perf_counter()
                await asyncio.sleep(max(wait, 0))
                if time.perf_counter() >= started + seconds:
                    break
                group.create_task(send())
    return Load(tuple(replies), started, seconds)


@asynccontextmanager
async def _sending(url: str, asked: Sequence[Asked]) -> AsyncIterator[tuple[Send, list[Reply]]]:
    """What sends the next of the bodies, in turn, and the list to which its reply is added."""
    turns, replies = cycle(asked), list[Reply]()
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(timeout=None, limits=limits) as client:

        async def send() -> None:
            one, sent = next(turns), time.perf_counter()
            try:
                reply = await client.post(url, json=one.body)
                status, text = reply.status_code, reply.text
            except httpx.HTTPError:
                status, text = 0, ""
            right = status == httpx.codes.OK and one.expected in text
            replies.append(Reply(status, right, sent, time.perf_counter() - sent))

        yield send, replies

"""Texts of requests that wait at the same time are encoded in one batch; each caller gets its own rows."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np

from mrag.models.encoder import Kind
from mrag.schema import Vectors

Encode = Callable[[Sequence[str], Kind], Vectors]
Asked = tuple[Sequence[str], Kind]
Found = list[Vectors | Exception]


class Together:
    """Encodes what came while the batch before was computed, at most so many requests; none waits for others.

    Ray Serve's own batching waits for a replica's context, so that it can't be tested without a cluster.
    """

    def __init__(self, encode: Encode, most: int) -> None:
        self._encode = encode
        self._most = most
        self._waiting: deque[tuple[Asked, asyncio.Future[Vectors]]] = deque()
        self._running: asyncio.Task[None] | None = None

    async def encode(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """Unit rows, in the order given. Raises what the encoder raises for these texts."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(((texts, kind), future))
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        rows: Vectors = await future
        return rows

    async def _run(self) -> None:
        while self._waiting:
            turns = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
            wanted = [(asked, future) for asked, future in turns if not future.done()]
            found = await asyncio.to_thread(encoded, self._encode, [asked for asked, _ in wanted])
            for (_, future), rows in zip(wanted, found, strict=True):
                if future.done():  # Its caller has left.
                    continue
                if isinstance(rows, Exception):
                    future.set_exception(rows)
                else:
                    future.set_result(rows)


def encoded(encode: Encode, asked: Sequence[Asked]) -> Found:
    """The rows of each request, or its error, which costs no other request its rows."""
    if len({kind for _, kind in asked}) > 1:
        return _alone(encode, asked)
    texts, ends = [text for some, _ in asked for text in some], accumulate(len(some) for some, _ in asked)
    try:
        return [*np.split(encode(texts, asked[0][1]), list(ends)[:-1])] if asked else []
    except Exception as error:  # noqa: BLE001 - each caller is told
        return [error] if len(asked) == 1 else _alone(encode, asked)


def _alone(encode: Encode, asked: Sequence[Asked]) -> Found:
    return [found for one in asked for found in encoded(encode, [one])]

"""A new segment, written while documents are still being built: memory stays flat."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import Empty, Full, Queue
from types import TracebackType

from mrag.collection import (
    SegmentInfo,
    ShardEntry,
    ShardInfo,
    new_segment_id,
    shard_of,
    write_segment_shard,
)
from mrag.collection.segments import remove_segments
from mrag.errors import StoreError
from mrag.settings import Settings

_ENTRIES_AHEAD = 8
_POLL_S = 0.02


class _AbandonedError(Exception):
    """Raised inside a writer, so that it leaves nothing of its shard."""


_Entries = Queue[ShardEntry | _AbandonedError | None]


class SegmentWriting:
    """An async context: entries are added in any order; without `finish`, nothing is left behind.

    Each shard is written by a thread, which takes its entries from a queue that bounds what is kept.
    """

    def __init__(self, settings: Settings) -> None:
        self._collection = settings.collection
        self._id = new_segment_id()
        shards = range(settings.collection.shards)
        self._queues: list[_Entries] = [Queue(_ENTRIES_AHEAD) for _ in shards]
        self._finished = False
        self._pool = ThreadPoolExecutor(len(shards), thread_name_prefix="shard")
        place = settings.collection
        write = partial(write_segment_shard, place.root, place.name, self._id)
        self._writers: list[Future[ShardInfo]] = [
            self._pool.submit(write, shard, _taken(queue), settings.dense, settings.sparse)
            for shard, queue in enumerate(self._queues)
        ]

    async def __aenter__(self) -> SegmentWriting:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._finished:
            for queue in self._queues:
                _abandon(queue)
        await asyncio.to_thread(self._pool.shutdown)
        if not self._finished:
            with suppress(StoreError):  # The next writer removes it.
                remove_segments(self._collection.root, self._collection.name, [self._id])

    async def add(self, entry: ShardEntry) -> None:
        """Waits for room in the shard's queue. Raises what ended the shard's writer."""
        await self._put(shard_of(entry.built.document.id, len(self._queues)), entry)

    async def finish(self) -> SegmentInfo:
        """Ends every shard; the segment is complete on disk, and not yet published."""
        for shard in range(len(self._queues)):
            await self._put(shard, None)
        infos = [await asyncio.wrap_future(writer) for writer in self._writers]
        self._finished = True
        return SegmentInfo(self._id, tuple(infos))

    async def _put(self, shard: int, entry: ShardEntry | None) -> None:
        while True:
            if self._writers[shard].done():
                self._writers[shard].result()
            try:
                self._queues[shard].put_nowait(entry)
                return
            except Full:
                await asyncio.sleep(_POLL_S)


def _taken(queue: _Entries) -> Iterator[ShardEntry]:
    while (entry := queue.get()) is not None:
        if isinstance(entry, _AbandonedError):
            raise entry
        yield entry


def _abandon(queue: _Entries) -> None:
    """Puts the end in place of what still waits in the queue; only its writer takes from it too."""
    while True:
        try:
            queue.put_nowait(_AbandonedError())
            return
        except Full:
            with suppress(Empty):
                queue.get_nowait()

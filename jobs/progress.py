"""How far a job is: extractors count, the driver writes a line to the job's log every few seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ray

from mrag.schema import Built, Outcome

EVERY_S = 5.0


@dataclass(frozen=True)
class Done:
    """What came out of the extractors so far; tokens are those of their language model."""

    documents: int = 0
    records: int = 0
    tokens: int = 0

    def plus(self, item: Built | Outcome) -> Done:
        """One more document; a failed one has no records."""
        records = len(item.records) if isinstance(item, Built) else 0
        return Done(self.documents + 1, self.records + records, self.tokens + item.usage.tokens)

    def line(self, total: int, seconds: float) -> str:
        """For a person; the end is estimated from the documents that are done."""
        left = (
            f", about {seconds * (total - self.documents) / self.documents:.0f} s left"
            if self.documents
            else ""
        )
        rate = self.tokens / seconds if seconds else 0.0
        return (
            f"{self.documents}/{total} documents, {self.records} records, {self.tokens} LLM tokens "
            f"({rate:.0f}/s), {seconds:.0f} s{left}"
        )


class Counter:
    """The actor that extractors tell. Losing it loses the count, never a document."""

    def __init__(self) -> None:
        self._done = Done()

    def add(self, item: Done) -> None:
        """One document more."""
        done = self._done
        self._done = Done(
            done.documents + item.documents, done.records + item.records, done.tokens + item.tokens
        )

    def done(self) -> Done:
        """The sum so far."""
        return self._done


@contextmanager
def reported(total: int) -> Iterator[Any]:
    """Yields the counter's handle; writes a line whenever the count has changed, and one at the end."""
    counter = ray.remote(Counter).options(num_cpus=0).remote()
    ended = threading.Event()
    started = time.monotonic()

    def say() -> Done:
        done: Done = ray.get(counter.done.remote())
        print(done.line(total, time.monotonic() - started), flush=True)
        return done

    def watch() -> None:
        last = Done()
        while not ended.wait(EVERY_S):
            done: Done = ray.get(counter.done.remote())
            if done != last:
                last = say()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield counter
        say()
    finally:
        ended.set()
        watcher.join()

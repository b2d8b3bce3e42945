"""How far a job is: extractors count, the driver writes a line to the job's log every few seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError

from mrag.indexing.plan import Plan
from mrag.schema import Built, Outcome

EVERY_S = 5.0
TELLING = 0.2  # the share of the work that tells how long the rest takes: the first replies come all late


@dataclass(frozen=True)
class Done:
    """What came out of the extractors so far, and what their language model was asked for it."""

    documents: int = 0
    records: int = 0
    calls: int = 0
    tokens: int = 0

    def __add__(self, other: Done) -> Done:
        return Done(
            self.documents + other.documents,
            self.records + other.records,
            self.calls + other.calls,
            self.tokens + other.tokens,
        )

    def line(self, plan: Plan, seconds: float) -> str:
        """For a person. The seconds are those since the model began to answer; they tell what is left."""
        asked = plan.left.calls
        parts = [f"{self.documents}/{plan.documents} documents, {self.records} records"]
        if asked or self.calls:
            rate = self.tokens / seconds if seconds else 0.0
            parts.append(f"{self.calls} of about {asked} LLM calls, {self.tokens} tokens ({rate:.0f}/s)")
            parts += [f"about {left} left"] if (left := plan.tokens_left(self.calls)) else []
        done, total = (self.calls, asked) if asked else (self.documents, plan.documents)
        parts.append(f"{seconds:.0f} s")
        if total * TELLING <= done < total and seconds:
            parts.append(f"about {seconds * (total - done) / done:.0f} s left")
        return ", ".join(parts)


def built_one(item: Built | Outcome) -> Done:
    """One more document; a failed one has no records."""
    return Done(1, len(item.records) if isinstance(item, Built) else 0)


class Counter:
    """The actor that extractors tell. Losing it loses the count, never a document."""

    def __init__(self) -> None:
        self._done = Done()

    def add(self, item: Done) -> None:
        """A document or a reply more."""
        self._done += item

    def done(self) -> Done:
        """The sum so far."""
        return self._done


@contextmanager
def reported(plan: Plan) -> Iterator[Any]:
    """Yields the counter's handle; writes a line whenever the count has changed, and one at the end."""
    counter = ray.remote(Counter).options(num_cpus=0).remote()
    ended = threading.Event()
    started, last = time.monotonic(), Done()

    def look() -> None:
        nonlocal started, last
        try:
            done: Done = ray.get(counter.done.remote())
        except RayError:
            return  # The counter is lost, and with it the count.
        if done == last:
            if done == Done():
                started = time.monotonic()  # The model is still being loaded.
            return
        last = done
        print(done.line(plan, time.monotonic() - started), flush=True)

    def watch() -> None:
        while not ended.wait(EVERY_S):
            look()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield counter
    finally:
        ended.set()
        watcher.join()
    look()

"""A collection whose shards are held by several searchers: all are asked side by side, and merged exactly.

A word is worth what it is worth in the whole collection: the searchers first say what they have of the
query's words, and then search by the sum. A part is whole shards, and so whole documents with all their keys.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Protocol, TypeVar

from mrag.collection.collection import Collection
from mrag.collection.manifest import Manifest, Part, existing_manifest
from mrag.collection.merging import merge
from mrag.collection.sparse import SparseStatistics
from mrag.errors import CollectionError, InputError, ModelError, MragError, NotFoundError, StoreError
from mrag.query.found import Found, Searchable
from mrag.schema import Hit, Leg, Query
from mrag.settings import DenseSettings
from mrag.settings.storage import Verify

_log = logging.getLogger(__name__)
PREPARE_S = 240.0
RETRY_S = 10.0  # after an object store could not be asked
KEPT = 2  # generations of a collection: the one in force, and the one before for questions under way

T = TypeVar("T")
Hits = Mapping[Leg, tuple[Hit, ...]]


class Searcher(Protocol):
    """What holds a part, here or elsewhere. Each method raises as `Collection.open` and `search` do."""

    async def prepare(self, name: str, generation: int) -> None:
        """Opens its part of a generation."""

    async def statistics(self, name: str, generation: int, query: Query) -> SparseStatistics:
        """What it adds to the collection's statistics for the query."""

    async def search(
        self, name: str, generation: int, query: Query, statistics: SparseStatistics | None
    ) -> Hits:
        """Its best records of each leg."""


class PartSearcher:
    """A `Searcher` over the files: opens what it is asked for, and keeps the last generations of each."""

    def __init__(
        self,
        root: Path,
        part: Part,
        encoder_fingerprint: str,
        dense: DenseSettings | None = None,
        verify: Verify | None = None,
    ) -> None:
        self._root = root
        self._part = part
        self._encoder = encoder_fingerprint
        self._dense = dense
        self._verify = verify
        self._kept: dict[str, dict[int, Collection]] = {}
        self._keeping = Lock()
        self._turns: dict[tuple[str, int], Lock] = {}
        self._unreachable_at = -inf

    async def prepare(self, name: str, generation: int) -> None:
        """As `Searcher` has it."""
        await asyncio.to_thread(self._opened, name, generation)

    async def statistics(self, name: str, generation: int, query: Query) -> SparseStatistics:
        """As `Searcher` has it."""
        return await asyncio.to_thread(lambda: self._opened(name, generation).statistics(query))

    async def search(
        self, name: str, generation: int, query: Query, statistics: SparseStatistics | None
    ) -> Hits:
        """As `Searcher` has it."""
        return await asyncio.to_thread(lambda: self._opened(name, generation).search(query, statistics))

    def _opened(self, name: str, generation: int) -> Collection:
        """One thread opens a generation; who asks for another does not wait.

        One that is open outlives its manifest, which a compaction removes.
        """
        with self._turns.setdefault((name, generation), Lock()):
            known = self._kept.get(name, {}).get(generation)
            if known is None or not self._still(known):
                known = self._open(name, generation)
            self._keep(name, generation, known)
            return known

    def _still(self, known: Collection) -> bool:
        """Whether it is what its name and number stand for: no other collection took them that we know of.

        Damage of what says so is no other collection: what is open is whole.
        """
        if monotonic() - self._unreachable_at < RETRY_S:
            return True
        try:
            return existing_manifest(self._root, known.name, known.manifest.generation) == known.manifest
        except StoreError:
            self._unreachable_at = monotonic()
            return True
        except (NotFoundError, CollectionError):
            return True

    def _keep(self, name: str, generation: int, collection: Collection) -> None:
        """As the one that was asked for last."""
        with self._keeping:
            kept = self._kept.setdefault(name, {})
            kept.pop(generation, None)
            kept[generation] = collection
            for oldest in list(kept)[:-KEPT]:
                del kept[oldest]
                self._turns.pop((name, oldest), None)

    def _open(self, name: str, generation: int) -> Collection:
        return Collection.open(
            self._root,
            name,
            generation=generation,
            verify=self._verify,
            encoder_fingerprint=self._encoder,
            dense=self._dense,
            part=self._part,
        )


@dataclass(frozen=True)
class _Missing:
    """`error` is for whom the whole question fails; `reason` names no file, and is told to callers."""

    number: int
    error: MragError
    reason: str


class Spread:
    """Asks the searchers of all parts, in the parts' order.

    One that fails, or does not answer within `timeout_s`, is left out, and named in what is found; unless
    answers must not be `partial`, or none is left: then its error is raised.
    """

    def __init__(self, searchers: Sequence[Searcher], timeout_s: float, partial: bool) -> None:
        self._searchers = dict(enumerate(searchers, 1))
        self._timeout_s = timeout_s
        self._partial = partial

    async def search(self, collection: Searchable, query: Query) -> Found:
        """Of all parts of that generation, as `Collection.search`; InputError is raised in any case."""
        name, generation = collection.manifest.name, collection.manifest.generation
        asked, missing, statistics = self._searchers, list[_Missing](), None
        if "sparse" in query.legs:
            told = await self._ask(asked, lambda one: one.statistics(name, generation, query))
            missing += self._left_out(told)
            asked = {number: asked[number] for number in _answers(told)}
            statistics = sum(_answers(told).values(), SparseStatistics())
        found = await self._ask(asked, lambda one: one.search(name, generation, query, statistics))
        missing += self._left_out(found)
        hits = _answers(found).values()
        merged = {leg: merge((one[leg] for one in hits), query.depth) for leg in query.legs}
        return Found(merged, tuple(self._sentence(one) for one in missing))

    async def prepare(self, manifest: Manifest) -> None:
        """Has a generation opened everywhere. Raises CollectionError where a searcher can't open it in time.

        One that is down will open it when it is back.
        """
        name, generation = manifest.name, manifest.generation
        told = await self._ask(self._searchers, lambda one: one.prepare(name, generation), PREPARE_S)
        for missing in told.values():
            if isinstance(missing, _Missing) and isinstance(missing.error, CollectionError):
                raise missing.error

    async def _ask(
        self,
        searchers: Mapping[int, Searcher],
        work: Callable[[Searcher], Awaitable[T]],
        timeout_s: float | None = None,
    ) -> dict[int, T | _Missing]:
        limit = timeout_s or self._timeout_s
        answers = await asyncio.gather(*(self._one(*pair, work, limit) for pair in searchers.items()))
        return dict(zip(searchers, answers, strict=True))

    async def _one(
        self, number: int, searcher: Searcher, work: Callable[[Searcher], Awaitable[T]], limit_s: float
    ) -> T | _Missing:
        """Whatever is wrong with a part costs that part; what is wrong with the question is raised."""
        try:
            return await asyncio.wait_for(work(searcher), limit_s)
        except TimeoutError:
            late = f"it did not answer within {limit_s:g} s"
            return _Missing(number, CollectionError(f"Part {number} is late, {late}."), late)
        except ModelError as error:
            return _Missing(number, error, str(error).rstrip("."))
        except Exception as error:
            if isinstance(error, InputError) and error.field not in ("collection", "generation"):
                raise
            _log.warning("Part %d of the collection can't be searched: %s", number, error)
            broken = error if isinstance(error, CollectionError) else CollectionError(str(error))
            return _Missing(number, broken, "it can't be read: the log says more")

    def _left_out(self, told: Mapping[int, object]) -> list[_Missing]:
        missing = [one for one in told.values() if isinstance(one, _Missing)]
        if missing and (not self._partial or len(missing) == len(told)):
            raise missing[0].error
        return missing

    def _sentence(self, missing: _Missing) -> str:
        place = f"Part {missing.number} of {len(self._searchers)}"
        return f"{place} of the collection is missing ({missing.reason})."


def _answers(told: Mapping[int, T | _Missing]) -> dict[int, T]:
    return {number: one for number, one in told.items() if not isinstance(one, _Missing)}

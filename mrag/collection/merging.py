"""Exact rankings: filling one up to its depth, and merging several. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrag.collection.ids import Rows
from mrag.schema import Hit

Scores = NDArray[np.float32]
Search = Callable[[int], tuple[Scores, Rows]]
FIRST_FACTOR = 4
GROWTH = 4


def merge(rankings: Iterable[Iterable[Hit]], depth: int) -> tuple[Hit, ...]:
    """The `depth` best records of rankings that are each complete down to that depth.

    A record counts once, with its best key. Order: score, best first; then record id; of equal keys of a
    record the first.
    """
    best: dict[str, Hit] = {}
    for ranking in rankings:
        for hit in ranking:
            known = best.get(hit.record_id)
            if known is None or (-hit.score, hit.key) < (-known.score, known.key):
                best[hit.record_id] = hit
    return tuple(sorted(best.values(), key=lambda hit: (-hit.score, hit.record_id))[:depth])


def fill(search: Search, owners: Callable[[Rows], Rows], depth: int, keys: int) -> tuple[Scores, Rows]:
    """Scores and key rows of at least the `depth` best records, each by its best key, ties included.

    `search(count)` gives the `count` best of `keys` keys, best first, fewer only if there are no more; keys
    may share a record or be dead. `owners` gives the record of each key, -1 for a dead one. Asks for more
    until no key that was not seen could be among the best.
    """
    count = min(keys, depth * FIRST_FACTOR)
    while True:
        scores, rows = search(count)
        complete = len(rows) < count or count >= keys
        last = scores[-1] if len(scores) else -np.inf
        scores, rows = _best_keys(scores, rows, owners(rows))
        if complete or (len(scores) >= depth and scores[depth - 1] > last):
            wanted = scores >= scores[depth - 1] if len(scores) > depth else slice(None)
            return scores[wanted], rows[wanted]
        count = min(keys, count * GROWTH)


def _best_keys(scores: Scores, rows: Rows, owners: Rows) -> tuple[Scores, Rows]:
    """The first of the best keys of each living owner, best first."""
    order: Any = np.lexsort((rows, -scores))
    order = order[owners[order] >= 0]
    _, first = np.unique(owners[order], return_index=True)
    chosen = order[np.sort(first)]
    return scores[chosen], rows[chosen]

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
Owners = Callable[[Rows], tuple[Rows, Rows]]
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
            if known is None or (-hit.score, hit.key or 0) < (-known.score, known.key or 0):
                best[hit.record_id] = hit
    return tuple(sorted(best.values(), key=lambda hit: (-hit.score, hit.record_id))[:depth])


def fill(search: Search, owners: Owners, depth: int, total: int) -> tuple[Scores, Rows, Rows]:
    """Scores, rows and records of at least the `depth` best records, each by its best row, ties included.

    A row is a key, or a source unit. `search(count)` gives the `count` best of all `total` rows, best first,
    fewer only if there are no more. `owners` gives the live records of some rows, each with its place among
    them: none of a dead row, several of a unit. Asks for more until no row that was not seen could matter.
    """
    count = min(total, depth * FIRST_FACTOR)
    while True:
        scores, rows = search(count)
        complete = len(rows) < count or count >= total
        last = scores[-1] if len(scores) else -np.inf
        places, records = owners(rows)
        scores, rows, records = _best_rows(scores[places], rows[places], records)
        if complete or (len(scores) >= depth and scores[depth - 1] > last):
            wanted = scores >= scores[depth - 1] if len(scores) > depth else slice(None)
            return scores[wanted], rows[wanted], records[wanted]
        count = min(total, count * GROWTH)


def _best_rows(scores: Scores, rows: Rows, records: Rows) -> tuple[Scores, Rows, Rows]:
    """The first of the best rows of each record, best first."""
    order: Any = np.lexsort((rows, -scores))
    _, first = np.unique(records[order], return_index=True)
    chosen = order[np.sort(first)]
    return scores[chosen], rows[chosen], records[chosen]


def at_least(scores: Scores, depth: int) -> Rows:
    """The rows of the `depth` best scores and of those that equal the last of them, -inf apart."""
    if len(scores) <= depth:
        return np.flatnonzero(scores > -np.inf)
    threshold = np.partition(scores, len(scores) - depth)[len(scores) - depth]
    return np.flatnonzero((scores >= threshold) & (scores > -np.inf))

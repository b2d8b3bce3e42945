"""Merging and filling against sorting everything."""

from __future__ import annotations

from itertools import chain

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mrag.collection.ids import Rows
from mrag.collection.merging import Scores, at_least, fill, merge
from mrag.schema import Hit

SCORES = st.sampled_from([3.0, 2.0, 1.5, 1.0, 0.5, -1.0])
HITS = st.builds(Hit, st.sampled_from("abcdefgh"), SCORES, st.integers(0, 3))


@given(st.lists(st.lists(HITS)), st.integers(1, 10))
def test_merging_is_sorting_the_best_hit_of_each_record(rankings: list[list[Hit]], depth: int) -> None:
    best: dict[str, Hit] = {}
    for hit in sorted(chain(*rankings), key=lambda hit: (-hit.score, hit.record_id, hit.key)):
        best.setdefault(hit.record_id, hit)
    assert merge(rankings, depth) == tuple(best.values())[:depth]


@given(st.lists(st.lists(HITS)), st.integers(1, 10))
def test_merging_in_steps_is_merging_at_once(rankings: list[list[Hit]], depth: int) -> None:
    steps = merge([merge(rankings[::2], depth), merge(rankings[1::2], depth)], depth)
    assert steps == merge(rankings, depth)


@given(st.lists(st.tuples(SCORES, st.integers(-1, 6)), max_size=60), st.integers(1, 8))
def test_filling_finds_what_sorting_all_keys_finds(keys: list[tuple[float, int]], depth: int) -> None:
    scores = np.array([score for score, _ in keys], np.float32)
    owners = np.array([owner for _, owner in keys], np.int64)
    order = np.argsort(-scores, kind="stable")

    def search(count: int) -> tuple[Scores, Rows]:
        return scores[order[:count]], order[:count]

    def living(rows: Rows) -> tuple[Rows, Rows]:
        places = np.flatnonzero(owners[rows] >= 0)
        return places, owners[rows[places]]

    found, rows, records = fill(search, living, depth, len(keys))
    assert records.tolist() == owners[rows].tolist()
    hits = [Hit(str(owners[row]), float(score), int(row)) for score, row in zip(found, rows, strict=True)]
    every = [Hit(str(owner), score, row) for row, (score, owner) in enumerate(keys) if owner >= 0]
    assert merge([hits], depth) == merge([every], depth)
    assert len({hit.record_id for hit in hits}) == len(hits)


def test_filling_asks_no_more_than_it_needs() -> None:
    asked = []

    def search(count: int) -> tuple[Scores, Rows]:
        asked.append(count)
        return np.arange(1000, 1000 - count, -1).astype(np.float32), np.arange(count)

    fill(search, lambda rows: (np.arange(len(rows)), rows), 10, 1000)
    assert asked == [40]


@given(st.lists(SCORES, max_size=30), st.integers(1, 8))
def test_what_is_at_least_as_good_as_the_best_is_all_that_sorting_finds(
    scores: list[float], depth: int
) -> None:
    dead = [-np.inf if place % 4 == 3 else score for place, score in enumerate(scores)]
    living = sorted((score for score in dead if score > -np.inf), reverse=True)
    expected = [row for row, score in enumerate(dead) if score in living[:depth]]
    assert at_least(np.array(dead, np.float32), depth).tolist() == expected

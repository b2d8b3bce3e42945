"""Pointers both ways, against pairs in a list."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mrag.collection.pointing import Pointing

POINTERS = st.lists(st.sets(st.integers(0, 6), min_size=1), max_size=8)


def pointing(records: list[set[int]]) -> Pointing:
    pairs = [(record, unit) for record, units in enumerate(records) for unit in sorted(units)]
    rows = np.array(pairs, np.int64).reshape(-1, 2)
    return Pointing(rows[:, 0], rows[:, 1], 7)


@given(POINTERS, st.lists(st.floats(-1, 1, width=32), min_size=7, max_size=7))
def test_a_record_has_the_score_of_its_best_unit(records: list[set[int]], scores: list[float]) -> None:
    found = pointing(records).best(np.array(scores, np.float32))
    assert found.tolist() == [max(scores[unit] for unit in units) for units in records]


@given(POINTERS, st.lists(st.integers(0, 6), unique=True))
def test_a_unit_has_every_record_that_points_to_it(records: list[set[int]], asked: list[int]) -> None:
    places, rows = pointing(records).records(np.array(asked, np.int64))
    expected = [
        (place, record)
        for place, unit in enumerate(asked)
        for record, units in enumerate(records)
        if unit in units
    ]
    assert list(zip(places.tolist(), rows.tolist(), strict=True)) == expected

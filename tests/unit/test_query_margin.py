"""How sure a retrieval is, computed by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.query.margin import margin
from mrag.schema import Candidate, Leg
from tests.query_pool import candidate


def scored(*scores: Mapping[Leg, float]) -> list[Candidate]:
    return [replace(candidate("text", f"d{n}"), scores=each) for n, each in enumerate(scores)]


def both(dense: Sequence[float], sparse: Sequence[float]) -> list[Candidate]:
    return scored(*({"dense": d, "sparse": s} for d, s in zip(dense, sparse, strict=True)))


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        # dense (0.7 - 0.3) / (0.9 - 0.1); sparse (8 - 6) / (10 - 2): the smaller
        (both([0.9, 0.7, 0.3, 0.1], [10, 8, 6, 2]), 0.25),
        # in another order within the two and within the rest
        (both([0.7, 0.9, 0.1, 0.3], [8, 10, 6, 2]), 0.25),
        # the sparse leg has the third before the second
        (both([0.9, 0.7, 0.3, 0.1], [10, 6, 8, 2]), 0.0),
        # a tie is no margin
        (both([0.9, 0.7, 0.3, 0.1], [10, 6, 6, 2]), 0.0),
        (both([1, 1, 1, 1], [1, 1, 1, 1]), 0.0),
        # a leg knows only some of the others: (8 - 2) / (10 - 2), and dense as above
        (scored({"dense": 0.9, "sparse": 10}, {"dense": 0.7, "sparse": 8}, {"dense": 0.3, "sparse": 2},
                {"dense": 0.1}), 0.5),
        # a leg found just the two
        (scored({"dense": 0.9, "sparse": 10}, {"dense": 0.7, "sparse": 8}, {"dense": 0.3},
                {"dense": 0.1}), 0.5),
        # a leg did not find one of the two
        (scored({"dense": 0.9, "sparse": 10}, {"dense": 0.7}, {"dense": 0.3}, {"dense": 0.1}), 0.0),
        # one leg has no witness
        (scored({"dense": 0.9}, {"dense": 0.8}, {"dense": 0.1}), 0.0),
        (scored({}, {}, {}), 0.0),
    ],
)  # fmt: skip
def test_the_margin_of_the_first_two(candidates: list[Candidate], expected: float) -> None:
    assert margin(candidates, 2) == pytest.approx(expected)


SCORES = st.lists(st.tuples(*[st.none() | st.integers(-5, 5)] * 2), min_size=2, max_size=6)


@given(SCORES, st.integers(1, 5), st.integers(1, 9), st.integers(-9, 9))
def test_a_margin_is_a_share_whatever_the_scale_of_a_leg(
    scores: list[tuple[int | None, int | None]], k: int, scale: int, shift: int
) -> None:
    def pool(scale: int, shift: int) -> list[Candidate]:
        return scored(
            *(
                ({"dense": float(d)} if d is not None else {})
                | ({"sparse": float(s * scale + shift)} if s is not None else {})
                for d, s in scores
            )
        )

    found = margin(pool(1, 0), k)
    assert 0 <= found <= 1
    assert margin(pool(scale, shift), k) == pytest.approx(found)

"""The model's order and the retrieval's become one, computed by hand."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.query.rank_fusion import fused

W = 6
SCORES = st.dictionaries(st.integers(1, W), st.sampled_from([-3.0, -1.0, 0.0, 0.5, 2.0]))
WEIGHTS = st.sampled_from([0.0, 0.5, 1.0, 2.0])


@pytest.mark.parametrize(
    ("scores", "weight", "expected"),
    [
        # the model: 4, 3, 2, 1. The ends have 1/14 + 1/11 = 0.16234, those between 1/13 + 1/12 = 0.16026
        ({1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4}, 1.0, (1, 4, 2, 3)),
        ({1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4}, 0.0, (4, 3, 2, 1)),
        # 1/14 + 2/11 = 0.2532, 1/13 + 2/12 = 0.2436, 1/12 + 2/13 = 0.2372, 1/11 + 2/14 = 0.2338
        ({1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4}, 2.0, (1, 2, 3, 4)),
        # equal scores are places in the order of the retrieval
        ({1: 0.0, 2: 0.0, 3: 0.0, 4: 0.0}, 1.0, (1, 2, 3, 4)),
        # the first has no score and is first in both orders; 4 is the model's first of the others, then 3, 2:
        # 1 2/11, 2 1/13 + 1/12 = 0.16026, 3 1/12 + 1/13 = 0.16026, 4 1/11 + 1/14 = 0.16234
        ({2: 0.2, 3: 0.3, 4: 0.4}, 1.0, (1, 4, 2, 3)),
        ({}, 1.0, (1, 2, 3, 4)),
        ({}, 0.0, (1, 2, 3, 4)),
        ({4: float("-inf")}, 0.0, (1, 4, 2, 3)),
    ],
)
def test_both_orders_are_fused(scores: dict[int, float], weight: float, expected: tuple[int, ...]) -> None:
    assert fused(scores, 4, weight) == expected


@given(SCORES, WEIGHTS, st.randoms())
def test_each_candidate_stands_once_and_the_order_of_the_scores_is_no_matter(
    scores: dict[int, float], weight: float, chance: random.Random
) -> None:
    order = fused(scores, W, weight)
    assert sorted(order) == list(range(1, W + 1))
    shuffled = list(scores.items())
    chance.shuffle(shuffled)
    assert fused(dict(shuffled), W, weight) == order


@given(SCORES, WEIGHTS)
def test_only_the_order_of_the_scores_matters(scores: dict[int, float], weight: float) -> None:
    assert fused({rank: 3 * score**3 + 7 for rank, score in scores.items()}, W, weight) == fused(
        scores, W, weight
    )


@given(SCORES, WEIGHTS, st.integers(1, W))
def test_a_better_score_never_costs_a_place(scores: dict[int, float], weight: float, rank: int) -> None:
    scores = dict.fromkeys(range(1, W + 1), 0.0) | scores
    before = fused(scores, W, weight).index(rank)
    assert fused(scores | {rank: scores[rank] + 1}, W, weight).index(rank) <= before

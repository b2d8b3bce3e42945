"""Fusion: by reciprocal rank and by normalised scores, whatever the order of what is fused."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.query.fuse import Ranked, fuse, united
from mrag.schema import Hit
from mrag.settings import LegWeights, RetrievalSettings

RANK = RetrievalSettings()
SCORES = RetrievalSettings(fusion="scores")
SETTINGS = st.builds(
    RetrievalSettings,
    fusion=st.sampled_from(["rank", "scores"]),
    rank_constant=st.integers(1, 100),
    leg_weights=st.builds(LegWeights, dense=st.floats(0.1, 9), sparse=st.floats(0.1, 9)),
)


def test_reciprocal_ranks_are_summed() -> None:
    fused = fuse({"dense": [Hit("x", 0.9, 1), Hit("y", 0.5)], "sparse": [Hit("y", 7.0, 1)]}, RANK)
    assert [record.record_id for record in fused] == ["y", "x"]
    assert fused[0].score == pytest.approx(1 / 62 + 1 / 61)
    assert fused[0].scores == {"dense": 0.5, "sparse": 7.0}
    assert fused[0].key == 1  # of the leg that ranks it best
    assert fused[1] == Ranked("x", 1 / 61, {"dense": 0.9}, 1)


def test_the_best_key_is_that_of_a_leg_that_knows_it() -> None:
    fused = fuse({"dense": [Hit("x", 0.9), Hit("y", 0.5, 1)], "sparse": [Hit("y", 7.0, None)]}, RANK)
    assert [(record.record_id, record.key) for record in fused] == [("y", 1), ("x", 0)]
    assert fuse({"sparse": [Hit("x", 7.0, None)]}, RANK)[0].key == 0


def test_ties_go_by_record_id() -> None:
    fused = fuse({"dense": [Hit("b", 1.0), Hit("a", 1.0)], "sparse": []}, RANK)
    assert [record.record_id for record in fused] == ["a", "b"]


HITS = st.lists(
    st.builds(Hit, st.sampled_from("abcdef"), st.floats(-9, 9), st.none() | st.integers(0, 1)),
    unique_by=lambda hit: hit.record_id,
)


@given(HITS, HITS, SETTINGS, st.randoms())
def test_fusion_does_not_know_the_order_of_legs_or_hits(
    dense: list[Hit], sparse: list[Hit], how: RetrievalSettings, random: Any
) -> None:
    fused = fuse({"dense": dense, "sparse": sparse}, how)
    random.shuffle(dense)
    assert fuse({"sparse": sparse, "dense": dense}, how) == fused
    assert {record.record_id for record in fused} == {hit.record_id for hit in [*dense, *sparse]}
    assert list(fused) == sorted(fused, key=lambda record: (-record.score, record.record_id))


def test_scores_are_normalised_within_their_leg_and_weighted() -> None:
    hits = {
        "dense": [Hit("x", 0.9), Hit("y", 0.7), Hit("z", -0.1)],
        "sparse": [Hit("y", 12.0), Hit("z", 2.0)],
    }
    fused = fuse(hits, RetrievalSettings(fusion="scores", leg_weights=LegWeights(dense=1.0, sparse=0.5)))
    assert [record.record_id for record in fused] == ["y", "x", "z"]
    assert [record.score for record in fused] == pytest.approx([0.8 + 0.5, 1.0, 0.0])
    assert fused[0].scores == {"dense": 0.7, "sparse": 12.0}


def test_equal_scores_are_all_the_best_and_an_empty_leg_says_nothing() -> None:
    fused = fuse({"dense": [Hit("b", 0.5), Hit("a", 0.5)], "sparse": []}, SCORES)
    assert [(record.record_id, record.score) for record in fused] == [("a", 1.0), ("b", 1.0)]


@given(HITS, st.integers(1, 9), st.integers(-9, 9))
def test_fusion_by_scores_does_not_know_the_scale_of_a_leg(hits: list[Hit], scale: int, shift: int) -> None:
    whole = [replace(hit, score=float(round(hit.score))) for hit in hits]
    other = fuse({"dense": [replace(hit, score=hit.score * scale + shift) for hit in whole]}, SCORES)
    one = fuse({"dense": whole}, SCORES)
    assert [(record.record_id, record.score) for record in one] == [
        (record.record_id, pytest.approx(record.score)) for record in other
    ]


def test_weights_hold_for_ranks_too() -> None:
    hits = {"dense": [Hit("x", 0.9)], "sparse": [Hit("y", 9.0)]}
    weighted = RetrievalSettings(leg_weights=LegWeights(sparse=2.0))
    assert [record.record_id for record in fuse(hits, RANK)] == ["x", "y"]
    assert [record.record_id for record in fuse(hits, weighted)] == ["y", "x"]
    assert fuse(hits, weighted)[0].score == pytest.approx(2 / 61)


# --------------------------------------------------------------------------- several queries


def test_one_ranking_alone_stays_as_it_is() -> None:
    ranking = fuse({"dense": [Hit("x", 0.9), Hit("y", 0.5)]}, SCORES)
    assert united([ranking], 60) == ranking


def test_rankings_of_several_queries_are_united_by_rank() -> None:
    whole = [Ranked("x", 9.0, {"dense": 0.9}, 0), Ranked("y", 1.0, {"dense": 0.1}, 2)]
    part = [Ranked("y", 0.5, {"dense": 0.4, "sparse": 3.0}, 1)]
    assert united([whole, part], 60) == (
        Ranked("y", 1 / 62 + 1 / 61, {"dense": 0.4, "sparse": 3.0}, 1),
        Ranked("x", 1 / 61, {"dense": 0.9}, 0),
    )


@given(st.lists(HITS, min_size=1, max_size=3))
def test_the_order_of_queries_does_not_matter(found: list[list[Hit]]) -> None:
    rankings = [fuse({"dense": hits}, RANK) for hits in found]
    assert len({repr(united(order, 60)) for order in permutations(rankings)}) == 1

"""The model's order of the candidates and the retrieval's become one, by reciprocal rank."""

from __future__ import annotations

from collections.abc import Mapping

# Small beside that of the legs (60): a pool is short, and its first places must count.
RANK_CONSTANT = 10


def fused(scores: Mapping[int, float], w: int, rank_weight: float) -> tuple[int, ...]:
    """The ranks 1 to w of a pool, best first, by 1 / (constant + place), the retrieval's so many times.

    `scores` are the model's, by rank in the pool. One that has none is where the retrieval put it in both
    orders. Equal ones keep the order of the retrieval.
    """
    by_score = sorted(scores, key=lambda rank: (-scores[rank], rank))
    places = {rank: place for place, rank in enumerate(by_score, 1)}

    def weight(rank: int) -> float:
        return 1 / (RANK_CONSTANT + places.get(rank, rank)) + rank_weight / (RANK_CONSTANT + rank)

    return tuple(sorted(range(1, w + 1), key=lambda rank: (-weight(rank), rank)))

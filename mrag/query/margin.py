"""How sure the retrieval is of its first candidates, without asking a model."""

from __future__ import annotations

from collections.abc import Sequence

from mrag.schema import Candidate, Leg


def margin(candidates: Sequence[Candidate], k: int) -> float:
    """By how much every leg puts the first k before all others, from 0 (some leg does not) to 1.

    In a leg it is the distance between the lowest score of the k and the highest of the others, as a share
    of the leg's scores in the pool from end to end; the smallest of the legs counts. Fused scores can't say
    it: they are sums of reciprocal ranks, which lie equally close whatever the scores were. One leg alone
    has no witness: 0.
    """
    legs = sorted({leg for candidate in candidates for leg in candidate.scores})
    return min((_margin(leg, candidates, k) for leg in legs), default=0.0) if len(legs) > 1 else 0.0


def _margin(leg: Leg, candidates: Sequence[Candidate], k: int) -> float:
    """Others that the leg did not find are behind whatever it did find."""
    first = [candidate.scores[leg] for candidate in candidates[:k] if leg in candidate.scores]
    others = [candidate.scores[leg] for candidate in candidates[k:] if leg in candidate.scores]
    if len(first) < k:
        return 0.0
    if not others:
        return 1.0
    spread = max(first) - min(others)
    return max(0.0, (min(first) - max(others)) / spread) if spread > 0 else 0.0

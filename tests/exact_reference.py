"""What exact search is: BM25 written out, and hits compared with scores that are all known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import log1p

import numpy as np
import pytest

from mrag.collection.analysis import Analyzer
from mrag.schema import Hit, Leg
from tests.collection_corpus import STAMP


def stored_length(words: int) -> int:
    """SmallFloat.byte4ToInt(intToByte4(words)): exact up to 40, then four significant bits."""
    if words < 24:
        return words
    value, shift = words - 24, 0
    while value >> shift >= 16:
        shift += 1
    return 24 + (value >> shift << shift)


def bm25(texts: Sequence[str], query: str) -> list[float]:
    """BM25 of each English text without its constant factor k1 + 1, as Lucene has it since version 8."""
    analyzer = Analyzer("en")
    return bm25_of_words([analyzer.words(text) for text in texts], analyzer.words(query))


def bm25_of_words(texts: Sequence[Sequence[str]], query: Sequence[str]) -> list[float]:
    """The same of texts and a query that are words already."""
    bags = [Counter(text) for text in texts]
    worded = [bag for bag in bags if bag]
    average = sum(bag.total() for bag in worded) / len(worded)
    scores = np.zeros(len(bags))
    for word, repetitions in Counter(query).items():
        frequency = sum(word in bag for bag in worded)
        idf = log1p((len(worded) - frequency + 0.5) / (frequency + 0.5))
        for row, bag in enumerate(bags):
            norm = STAMP.k1 * (1 - STAMP.b + STAMP.b * stored_length(bag.total()) / average)
            scores[row] += repetitions * idf * bag[word] / (bag[word] + norm)
    return [float(score) for score in scores]


def assert_best(hits: Sequence[Hit], best: Mapping[str, float], depth: int) -> None:
    """The best `depth` records with their scores, in order; ties by their ids."""
    assert [hit.score for hit in hits] == pytest.approx(
        sorted(best.values(), reverse=True)[:depth], rel=2e-5, abs=1e-6
    )
    assert len({hit.record_id for hit in hits}) == len(hits)
    for hit in hits:
        assert hit.score == pytest.approx(best[hit.record_id], rel=2e-5, abs=1e-6)
    assert list(hits) == sorted(hits, key=lambda hit: (-hit.score, hit.record_id))


def assert_alike(one: Mapping[Leg, Sequence[Hit]], other: Mapping[Leg, Sequence[Hit]]) -> None:
    """The same hits: dense to the bit, sparse to the rounding of single precision."""
    assert one["dense"] == other["dense"]
    assert [hit.record_id for hit in one["sparse"]] == [hit.record_id for hit in other["sparse"]]
    assert [hit.score for hit in one["sparse"]] == pytest.approx(
        [hit.score for hit in other["sparse"]], rel=1e-6
    )

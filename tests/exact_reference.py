"""What exact search is: BM25 written out, and hits compared with scores that are all known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import log1p

import numpy as np
import pytest

from mrag.collection import ShardEntry
from mrag.collection.analysis import Analyzer
from mrag.schema import Hit, Leg
from tests.collection_corpus import STAMP, vector_of

Scores = Mapping[str, tuple[float, ...]]


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
    return bm25_of_words([_words(text) for text in texts], _words(query))


@lru_cache(maxsize=20_000)
def _words(text: str) -> tuple[str, ...]:
    return tuple(Analyzer("en").words(text))


def bm25_of_words(texts: Sequence[Sequence[str]], query: Sequence[str]) -> list[float]:
    """The same of texts and a query that are words already."""
    bags = [Counter(text) for text in texts]
    worded = [bag for bag in bags if bag]
    average = sum(bag.total() for bag in worded) / len(worded) if worded else 1.0
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


# --------------------------------------------------------------------------- of a collection's documents


def keys_of(entries: Iterable[ShardEntry]) -> list[tuple[str, int, str]]:
    """(record, number of the key, text) of every key."""
    return [
        (record.id, number, text)
        for entry in entries
        for record, texts in zip(entry.built.records, entry.key_texts, strict=True)
        for number, text in enumerate(texts)
    ]


def gathered(keys: Sequence[tuple[str, int, str]], scores: Iterable[float]) -> Scores:
    """The scores of each record's keys."""
    found: dict[str, tuple[float, ...]] = {}
    for (record, _, _), score in zip(keys, scores, strict=True):
        found[record] = (*found.get(record, ()), score)
    return found


def dense_reference(entries: Iterable[ShardEntry], query: str) -> Scores:
    """Inner products of the query with all keys, by record."""
    keys = keys_of(entries)
    return gathered(keys, (float(vector_of(text).astype(float) @ vector_of(query)) for _, _, text in keys))


def sparse_reference(entries: Iterable[ShardEntry], query: str) -> Scores:
    """BM25 of all keys, by record: those that share a word with the query."""
    keys = keys_of(entries)
    found = gathered(keys, bm25([text for _, _, text in keys], query))
    return {record: values for record, values in found.items() if max(values) > 0}


REFERENCES = {"dense": dense_reference, "sparse": sparse_reference}


def assert_exact(hits: Sequence[Hit], reference: Scores, depth: int) -> None:
    """The best `depth` records, each with the score of its best key and that key."""
    best = {record: max(scores) for record, scores in reference.items()}
    assert_best(hits, best, depth)
    for hit in hits:
        assert hit.key is not None
        assert reference[hit.record_id][hit.key] == best[hit.record_id]

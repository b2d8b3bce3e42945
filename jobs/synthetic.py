"""Documents of chance, ready to be written: what a collection costs does not need a language model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mrag.collection import ShardEntry
from mrag.schema import Built, Coverage, Document, Query, Record, SourceUnit, Vectors

VOCABULARY = 50_000
KEY_WORDS = 8
RECORDS_PER_DOCUMENT = 10
QUERY_WORDS = 6


def entries(first: int, records: int, dimension: int, seed: int = 0) -> Iterator[ShardEntry]:
    """Documents of ten records each, of one key each, numbered from `first`; the same seed gives the same."""
    chance = np.random.default_rng([seed, first])
    for start in range(0, records, RECORDS_PER_DOCUMENT):
        count = min(RECORDS_PER_DOCUMENT, records - start)
        yield _entry(
            f"d{first + start // RECORDS_PER_DOCUMENT:08d}", _texts(chance, count), chance, dimension
        )


def queries(count: int, dimension: int, depth: int, seed: int = 1) -> list[Query]:
    """Questions of six words and a vector of chance."""
    chance = np.random.default_rng(seed)
    texts = [" ".join(words) for words in _words(chance, (count, QUERY_WORDS))]
    return [
        Query(text, depth, vector=vector)
        for text, vector in zip(texts, _unit_rows(chance, count, dimension), strict=True)
    ]


def _texts(chance: np.random.Generator, count: int) -> list[str]:
    return [" ".join(words) for words in _words(chance, (count, KEY_WORDS))]


def _words(chance: np.random.Generator, shape: tuple[int, int]) -> list[list[str]]:
    """Few words are frequent and most are rare, as in a language."""
    ranks: NDArray[np.float64] = VOCABULARY ** chance.random(shape)
    return [[f"word{int(rank)}" for rank in row] for row in ranks]


def _unit_rows(chance: np.random.Generator, count: int, dimension: int) -> Vectors:
    rows = chance.standard_normal((count, dimension), np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def _entry(name: str, texts: Sequence[str], chance: np.random.Generator, dimension: int) -> ShardEntry:
    units, start = [], 0
    for number, text in enumerate(texts, start=1):
        units.append(SourceUnit(name, number, start, start + len(text), text))
        start += len(text) + 1
    records = tuple(
        Record(f"{name}#{unit.number}", name, (unit.text,), unit.text, (unit.number,)) for unit in units
    )
    document = Document(name, "\n".join(texts), name, {})
    built = Built(document, tuple(units), records, Coverage(len(units), len(units), 0))
    keys = tuple((text,) for text in texts)
    return ShardEntry(built, keys, _unit_rows(chance, len(texts), dimension))

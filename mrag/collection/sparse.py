"""The sparse leg: BM25 over the words of keys, in Lucene, with the statistics of the whole collection.

One Lucene document per key, in the order of the rows: Lucene's number of a document is the key's row. Lucene
takes document frequency, count and average length from the index that it searches, the dead included. A
search here is given the collection's own numbers instead: each word is boosted by the ratio of the two idf,
and k1 and b are rescaled by the ratio of the two average lengths. So a key's score is the same wherever it
stands and whatever is dead beside it, up to the rounding of single precision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import log1p
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrag.collection.analysis import Analyzer
from mrag.collection.ids import Rows
from mrag.collection.jvm import cast, java_class, java_errors, java_path
from mrag.settings import SparseSettings

FOLDER = "lucene"
TEXT = "text"
DOCUMENT = "document"
MAX_QUERY_WORDS = 1024
REMEMBERED_WORDS = 1 << 16
INDEX = "org.apache.lucene.index"
SEARCH = "org.apache.lucene.search"


@dataclass(frozen=True)
class SparseStatistics:
    """Of live keys: how many have words, how many words those are, and in how many each word stands."""

    keys: int = 0
    words: int = 0
    frequencies: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: SparseStatistics) -> SparseStatistics:
        frequencies = Counter(self.frequencies)
        frequencies.update(other.frequencies)
        return SparseStatistics(self.keys + other.keys, self.words + other.words, frequencies)

    @property
    def length(self) -> float:
        """The average number of words of a key."""
        return self.words / self.keys if self.keys else 0.0

    def idf(self, word: str) -> float:
        """Inverse document frequency as Lucene's BM25 has it."""
        frequency = self.frequencies.get(word, 0)
        return log1p((self.keys - frequency + 0.5) / (frequency + 0.5))


# --------------------------------------------------------------------------- writing


class SparseWriter:
    """Indexes the keys of one shard, row by row. Nothing is written before `close`'s end."""

    def __init__(self, folder: Path, settings: SparseSettings) -> None:
        self._analyzer = Analyzer(settings.language)
        path = folder / FOLDER
        path.mkdir()
        no_lock = java_class("org.apache.lucene.store.NoLockFactory").INSTANCE
        self._directory = java_class("org.apache.lucene.store.FSDirectory").open(java_path(path), no_lock)
        self._writer = java_class(f"{INDEX}.IndexWriter")(self._directory, _writing(self._analyzer))
        self._text, self._number = (
            _text_field(),
            java_class("org.apache.lucene.document.IntPoint")(DOCUMENT, 0),
        )
        self._document = java_class("org.apache.lucene.document.Document")()
        self._document.add(self._text)
        self._document.add(self._number)

    def add(self, key_text: str, document: int) -> int:
        """Appends the next key, of the document in that row; returns the number of its words."""
        self._text.setStringValue(key_text)
        self._number.setIntValue(document)
        self._writer.addDocument(self._document)
        return self._analyzer.count(key_text)

    def close(self) -> None:
        """Writes the index as one Lucene segment."""
        self._writer.forceMerge(1)
        self._writer.close()
        self._directory.close()

    def abandon(self) -> None:
        """Gives the memory back; what is in the folder can't be used."""
        self._writer.rollback()
        self._directory.close()


def _writing(analyzer: Analyzer) -> Any:
    """Merges only neighbours and in this thread: rows keep their order."""
    policy = java_class(f"{INDEX}.LogDocMergePolicy")()
    policy.setNoCFSRatio(1.0)
    config = java_class(f"{INDEX}.IndexWriterConfig")(analyzer.java)
    config.setMergePolicy(policy)
    config.setMergeScheduler(java_class(f"{INDEX}.SerialMergeScheduler")())
    return config


def _text_field() -> Any:
    kind = java_class("org.apache.lucene.document.FieldType")()
    kind.setTokenized(True)
    kind.setIndexOptions(java_class(f"{INDEX}.IndexOptions").DOCS_AND_FREQS)
    kind.freeze()
    empty = cast("java.lang.CharSequence", java_class("java.lang.String")(""))
    return java_class("org.apache.lucene.document.Field")(TEXT, empty, kind)


# --------------------------------------------------------------------------- searching


@dataclass(frozen=True)
class SparsePart:
    """The Lucene folder of one shard, and the rows of its dead documents."""

    folder: Path
    dead: Sequence[int] = ()


class SparseIndex:
    """Searches the keys of some shards at once; rows count on from one shard to the next.

    `live` are the keys and words of all live documents of these shards. Any number of threads may search.
    """

    def __init__(self, parts: Sequence[SparsePart], live: SparseStatistics, settings: SparseSettings) -> None:
        self._settings = settings
        self._live = live
        self._analyzer = Analyzer(settings.language)
        self._readers = [_open(part.folder) for part in parts]
        self._reader = _joined(self._readers)
        self._dead = [
            (_searcher(reader), _documents(part.dead))
            for reader, part in zip(self._readers, parts, strict=True)
            if part.dead
        ]
        self._frequency = lru_cache(REMEMBERED_WORDS)(self._count_frequency)
        self._all = SparseStatistics(self._reader.getDocCount(TEXT), self._reader.getSumTotalTermFreq(TEXT))

    @property
    def keys(self) -> int:
        """The number of rows, the dead included."""
        return int(self._reader.maxDoc())

    def words(self, text: str) -> list[str]:
        """The words of a query: the first 1024 different ones, with their repetitions."""
        words = self._analyzer.words(text)
        known = set(list(dict.fromkeys(words))[:MAX_QUERY_WORDS])
        return [word for word in words if word in known]

    def statistics(self, words: Iterable[str]) -> SparseStatistics:
        """What these shards add to the collection's statistics for a query."""
        frequencies = {word: self._frequency(word) - self._dead_frequency(word) for word in set(words)}
        return SparseStatistics(self._live.keys, self._live.words, frequencies)

    def _count_frequency(self, word: str) -> int:
        return int(self._reader.docFreq(java_class(f"{INDEX}.Term")(TEXT, word)))

    def _dead_frequency(self, word: str) -> int:
        return sum(searcher.count(_both(_term_query(word), dead)) for searcher, dead in self._dead)

    def search(
        self, words: Sequence[str], collection: SparseStatistics, count: int
    ) -> tuple[NDArray[np.float32], Rows]:
        """Scores and rows of the `count` best keys, best first, with the statistics of the `collection`.

        Dead keys may be among them; only keys with a word of the query are.
        """
        searcher = _searcher(self._reader)
        searcher.setSimilarity(self._similarity(collection))
        hits = searcher.search(self._query(words, collection), count).scoreDocs
        scores = np.fromiter((hit.score for hit in hits), np.float32, len(hits))
        rows = np.fromiter((hit.doc for hit in hits), np.int64, len(hits))
        return scores[scores > 0], rows[scores > 0]

    def _query(self, words: Sequence[str], collection: SparseStatistics) -> Any:
        builder = java_class(f"{SEARCH}.BooleanQuery$Builder")()
        should = java_class(f"{SEARCH}.BooleanClause$Occur").SHOULD
        for word, repetitions in Counter(words).items():
            if collection.frequencies.get(word, 0) > 0:
                local = SparseStatistics(self._all.keys, 0, {word: self._frequency(word)})
                boost = repetitions * collection.idf(word) / local.idf(word)
                builder.add(java_class(f"{SEARCH}.BoostQuery")(_term_query(word), boost), should)
        return builder.build()

    def _similarity(self, collection: SparseStatistics) -> Any:
        """BM25 whose k1 (1 - b + b length / average) is that of the collection's average."""
        k1, b = self._settings.k1, self._settings.b
        ratio = self._all.length / collection.length if collection.length else 1.0
        constant, per_length = k1 * (1 - b), k1 * b * ratio
        k1 = constant + per_length
        return java_class(f"{SEARCH}.similarities.BM25Similarity")(k1, per_length / k1 if k1 else 0.0)

    def close(self) -> None:
        """Gives files and memory back."""
        for reader in self._readers:
            reader.close()


def _open(folder: Path) -> Any:
    path = folder / FOLDER
    with java_errors(f"{path} is no readable Lucene index ({{}}): restore it, or index the collection anew."):
        directory = java_class("org.apache.lucene.store.FSDirectory").open(java_path(path))
        return java_class(f"{INDEX}.DirectoryReader").open(directory)


def _joined(readers: Sequence[Any]) -> Any:
    return java_class(f"{INDEX}.MultiReader")(*readers)


def _searcher(reader: Any) -> Any:
    return java_class(f"{SEARCH}.IndexSearcher")(cast(f"{INDEX}.IndexReader", reader))


def _documents(rows: Sequence[int]) -> Any:
    return java_class("org.apache.lucene.document.IntPoint").newSetQuery(DOCUMENT, *rows)


def _term_query(word: str) -> Any:
    return java_class(f"{SEARCH}.TermQuery")(java_class(f"{INDEX}.Term")(TEXT, word))


def _both(one: Any, other: Any) -> Any:
    builder = java_class(f"{SEARCH}.BooleanQuery$Builder")()
    required = java_class(f"{SEARCH}.BooleanClause$Occur").FILTER
    builder.add(one, required)
    builder.add(other, required)
    return builder.build()

"""The sparse leg: BM25 over the words of texts, in Lucene, with the statistics of the whole collection.

The texts are those of keys, or in an index of their own those of source units. One Lucene document per text,
in the order of the rows: Lucene's number of a document is the text's row. Lucene takes document frequency,
count and average length from the index that it searches, the dead included. A search here is given the
collection's own numbers instead: each word is boosted by the ratio of the two idf, and k1 and b are rescaled
by the ratio of the two average lengths. So a text's score is the same wherever it stands and whatever is dead
beside it, up to the rounding of single precision.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from math import log1p
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrag.collection.analysis import ANALYZERS, Analyzer, analyzer_of, check_language, words_in
from mrag.collection.ids import Rows
from mrag.collection.jvm import cast, java, java_class, java_path
from mrag.collection.languages import AUTO, UNDETERMINED
from mrag.collection.payload_form import storable
from mrag.settings import SparseSettings

KEYS = "lucene"
UNITS = "lucene-units"
TEXT = "text"
DOCUMENT = "document"
LANGUAGE = "language"
MAX_QUERY_WORDS = 1024
QUERY_SYNTAX = re.compile(r"[\s+\-!():^\[\]\"{}~*?\\/&|<>=]")
REMEMBERED_WORDS = 1 << 16
REMEMBERED_DOCUMENTS = 8
REMEMBERED_SEARCHERS = 8

FIELDS = "org.apache.lucene.document"
INDEX = "org.apache.lucene.index"
SEARCH = "org.apache.lucene.search"
STORE = "org.apache.lucene.store"


@dataclass(frozen=True)
class SparseStatistics:
    """Of live texts: how many have words, how many words those are, and in how many each word stands.

    `languages` are those of the texts, where statistics of several parts are summed.
    """

    texts: int = 0
    words: int = 0
    frequencies: Mapping[str, int] = field(default_factory=dict)
    languages: frozenset[str] = frozenset()

    def __add__(self, other: SparseStatistics) -> SparseStatistics:
        frequencies = Counter(self.frequencies)
        frequencies.update(other.frequencies)
        return SparseStatistics(
            self.texts + other.texts,
            self.words + other.words,
            frequencies,
            self.languages | other.languages,
        )

    @property
    def length(self) -> float:
        """The average number of words of a text."""
        return self.words / self.texts if self.texts else 0.0

    def idf(self, word: str) -> float:
        """Inverse document frequency as Lucene's BM25 has it."""
        frequency = self.frequencies.get(word, 0)
        return log1p((self.texts - frequency + 0.5) / (frequency + 0.5))


# --------------------------------------------------------------------------- writing


class SparseWriter:
    """Indexes the texts of one shard, row by row; there is no index before `close`."""

    def __init__(self, folder: Path, settings: SparseSettings, name: str = KEYS) -> None:
        path = folder / name
        path.mkdir()
        self._java = partial(java, f"{path} can't be written", "see whether its disk is full")
        check_language(settings.language)
        self._detected = settings.language == AUTO
        with self._java():
            self._analyzer = Analyzer(UNDETERMINED if self._detected else settings.language)
            no_lock = java_class(f"{STORE}.NoLockFactory").INSTANCE
            self._directory = java_class(f"{STORE}.FSDirectory").open(java_path(path), no_lock)
            self._writer = java_class(f"{INDEX}.IndexWriter")(self._directory, _writing(self._analyzer))
            self._text, self._number = _text_field(), java_class(f"{FIELDS}.IntPoint")(DOCUMENT, 0)
            self._document = java_class(f"{FIELDS}.Document")()
            self._document.add(self._text)
            self._document.add(self._number)
            if self._detected:
                self._language = _language_field()
                self._document.add(self._language)

    def add(self, texts: Iterable[str], document: int, language: str = UNDETERMINED) -> list[int]:
        """Appends the texts of the document in that row; returns the number of words of each.

        `language` is the document's, where that is detected.
        """
        with self._java():
            self._number.setIntValue(document)
            if not self._detected:
                return [self._add(text, self._analyzer) for text in texts]
            analyzer = analyzer_of(language)
            self._language.setStringValue(analyzer.language)
            return [self._add(text, analyzer) for text in texts]

    def _add(self, text: str, analyzer: Analyzer) -> int:
        self._text.setStringValue(text)
        if self._detected:
            self._text.setTokenStream(analyzer.stream(TEXT, text))
        self._writer.addDocument(self._document)
        return analyzer.count(text)

    def close(self) -> None:
        """Writes the index as one Lucene segment."""
        with self._java():
            try:
                self._writer.forceMerge(1)
                self._writer.close()
            finally:
                # Does nothing after `close`; after an error it gives files and memory back.
                self._writer.rollback()
                self._directory.close()

    def abandon(self) -> None:
        """Gives the memory back; what is in the folder can't be used."""
        with self._java():
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
    kind = java_class(f"{FIELDS}.FieldType")()
    kind.setTokenized(True)
    kind.setIndexOptions(java_class(f"{INDEX}.IndexOptions").DOCS_AND_FREQS)
    kind.freeze()
    empty = cast("java.lang.CharSequence", java_class("java.lang.String")(""))
    return java_class(f"{FIELDS}.Field")(TEXT, empty, kind)


def _language_field() -> Any:
    no_store = java_class(f"{FIELDS}.Field$Store").NO
    return java_class(f"{FIELDS}.StringField")(LANGUAGE, UNDETERMINED, no_store)


# --------------------------------------------------------------------------- searching


@dataclass(frozen=True)
class SparsePart:
    """The folder of one shard, the rows of its dead documents, and the Lucene folder in it."""

    folder: Path
    dead: Sequence[int] = ()
    name: str = KEYS


@dataclass(frozen=True, eq=False)
class Documents:
    """Rows of documents, ascending, each in whatever shard: what a filter lets through."""

    rows: Rows


class SparseIndex:
    """Searches the texts of some shards (at least one); rows count on from one shard to the next.

    `live` are the texts and words of all live documents of these shards. Any number of threads may search;
    they take turns.
    """

    def __init__(self, parts: Sequence[SparsePart], live: SparseStatistics, settings: SparseSettings) -> None:
        self._settings = settings
        self._live = live
        self._readers = [_open(part.folder / part.name) for part in parts]
        check_language(settings.language)
        with self._java():
            self._reader = java_class(f"{INDEX}.MultiReader")(*self._readers)
            dead = [
                (_searcher(reader), java_class(f"{FIELDS}.IntPoint").newSetQuery(DOCUMENT, *part.dead))
                for reader, part in zip(self._readers, parts, strict=True)
                if part.dead
            ]
            self._all = _everything(self._reader)
            self._lucene_knows = (live.texts, live.words) == (self._all.texts, self._all.words)
            self._languages = {settings.language}
            if settings.language == AUTO:
                self._languages = _living_languages(self._reader, dead)
        self._frequency = lru_cache(REMEMBERED_WORDS)(partial(_frequency, self._reader))
        self._dead_frequency = lru_cache(REMEMBERED_WORDS)(partial(_dead_frequency, dead))
        self._only = lru_cache(REMEMBERED_DOCUMENTS)(_documents_query)
        self._by_bm25 = lru_cache(REMEMBERED_SEARCHERS)(partial(_by_bm25, self._reader))

    @staticmethod
    def _java() -> AbstractContextManager[None]:
        return java("Lucene can't search", "open the collection again")

    def words(self, text: str, languages: Collection[str] = ()) -> list[str]:
        """The words of a query: the first 1024 different ones, with their repetitions.

        They are those of these shards' languages, or of others that are given.
        """
        words = self._words(text, languages or self._languages)
        known = set(list(dict.fromkeys(words))[:MAX_QUERY_WORDS])
        return [word for word in words if word in known]

    def _words(self, text: str, languages: Collection[str]) -> list[str]:
        with self._java():
            if len(languages) == 1:
                return Analyzer(next(iter(languages))).words(storable(text))
            return words_in(languages, storable(text))

    def statistics(self, words: Iterable[str]) -> SparseStatistics:
        """What these shards add to the collection's statistics for a query."""
        with self._java():
            frequencies = {word: self._frequency(word) - self._dead_frequency(word) for word in set(words)}
        return SparseStatistics(self._live.texts, self._live.words, frequencies)

    def share(self, text: str) -> SparseStatistics:
        """What these shards, as a part of a collection, add to its statistics for a query.

        The words are those of every language: other parts may have some that these have not.
        """
        every = ("en", *ANALYZERS) if self._settings.language == AUTO else self._languages
        statistics = self.statistics(self._words(text, every))
        return replace(statistics, languages=frozenset(self._languages))

    def search(
        self,
        words: Sequence[str],
        collection: SparseStatistics | None,
        count: int,
        documents: Documents | None = None,
    ) -> tuple[NDArray[np.float32], Rows]:
        """Scores and rows of the `count` best, best first.

        They are by the statistics of the `collection`; None: these shards are all of it. Dead texts may be
        among them; only texts with a word of the query are, and only those of the `documents` where they are
        given: they change no score.
        """
        with self._java():
            if collection is None and not self._lucene_knows:
                collection = self.statistics(words)
            query = any_of(self._boosts(words, collection) if collection else list(Counter(words).items()))
            if documents is not None:
                query = _scored_among(query, self._only(documents))
            scores, rows = _hits(self._searcher(collection).search(query, count))
        return scores[scores > 0], rows[scores > 0]

    def _boosts(self, words: Sequence[str], collection: SparseStatistics) -> list[tuple[str, float]]:
        boosts = []
        for word, repetitions in Counter(words).items():
            if collection.frequencies.get(word, 0) > 0:
                local = SparseStatistics(self._all.texts, 0, {word: self._frequency(word)})
                boosts.append((word, repetitions * collection.idf(word) / local.idf(word)))
        return boosts

    def _searcher(self, collection: SparseStatistics | None) -> Any:
        """BM25 whose k1 (1 - b + b length / average) is that of the collection's average."""
        k1, b = self._settings.k1, self._settings.b
        ratio = self._all.length / collection.length if collection and collection.length else 1.0
        constant, per_length = k1 * (1 - b), k1 * b * ratio
        k1 = constant + per_length
        return self._by_bm25(k1, per_length / k1 if k1 else 0.0)

    def close(self) -> None:
        """Gives files and memory back; without it Java does, some time after the last reference is gone."""
        with self._java():
            for reader in self._readers:
                reader.close()


def _open(path: Path) -> Any:
    with java(f"{path} is no readable Lucene index", "restore it, or index the collection anew"):
        directory = java_class(f"{STORE}.FSDirectory").open(java_path(path))
        return java_class(f"{INDEX}.DirectoryReader").open(directory)


def _everything(reader: Any) -> SparseStatistics:
    """Of all texts, the dead included, in Lucene's own numbers."""
    return SparseStatistics(reader.getDocCount(TEXT), reader.getSumTotalTermFreq(TEXT))


def _frequency(reader: Any, word: str) -> int:
    return int(reader.docFreq(java_class(f"{INDEX}.Term")(TEXT, word)))


def _living_languages(reader: Any, dead: Sequence[tuple[Any, Any]]) -> set[str]:
    """Those of the live texts."""
    terms = {name: java_class(f"{INDEX}.Term")(LANGUAGE, name) for name in ("en", *ANALYZERS)}
    return {
        name
        for name, term in terms.items()
        if (frequency := int(reader.docFreq(term))) and frequency > _dead_among(dead, _query_of(term))
    }


def _dead_frequency(dead: Sequence[tuple[Any, Any]], word: str) -> int:
    """In how many dead texts a word stands; `dead` has a searcher and what finds its dead texts."""
    return _dead_among(dead, _term_query(word))


def _dead_among(dead: Sequence[tuple[Any, Any]], query: Any) -> int:
    return sum(searcher.count(_both(query, documents)) for searcher, documents in dead)


def _searcher(reader: Any) -> Any:
    return java_class(f"{SEARCH}.IndexSearcher")(cast(f"{INDEX}.IndexReader", reader))


def _by_bm25(reader: Any, k1: float, b: float) -> Any:
    searcher = _searcher(reader)
    searcher.setSimilarity(java_class(f"{SEARCH}.similarities.BM25Similarity")(k1, b))
    return searcher


def _hits(found: Any) -> tuple[NDArray[np.float32], Rows]:
    """Scores and rows of Lucene's TopDocs, read as one JSON text: every call into Java costs microseconds.

    A float is written with as many digits as tell it from all others.
    """
    hits = json.loads(_json_writer().writeValueAsString(found))["scoreDocs"]
    scores = np.fromiter((hit["score"] for hit in hits), np.float32, len(hits))
    return scores, np.fromiter((hit["doc"] for hit in hits), np.int64, len(hits))


@cache
def _json_writer() -> Any:
    return java_class("com.fasterxml.jackson.databind.ObjectMapper")()


def any_of(clauses: Sequence[tuple[str, float]]) -> Any:
    """Texts with one of the words, each of which counts by its boost.

    Written in Lucene's query language: one call into Java, where building it takes four for each word.
    """
    if not clauses:
        return java_class(f"{SEARCH}.MatchNoDocsQuery")()
    boosted = [f"{_literal(word)}^{np.format_float_positional(boost, trim='0')}" for word, boost in clauses]
    return _query_parser().parse(" ".join(boosted))


def _literal(word: str) -> str:
    """The word in Lucene's query language, where AND, OR and NOT are operators."""
    escaped = QUERY_SYNTAX.sub(r"\\\g<0>", word)
    return f"\\{escaped}" if word in ("AND", "OR", "NOT") else escaped


@cache
def _query_parser() -> Any:
    """Takes words as they are. It keeps state, so that threads have to take turns."""
    as_it_is = java_class("org.apache.lucene.analysis.core.KeywordAnalyzer")()
    return java_class("org.apache.lucene.queryparser.classic.QueryParser")(TEXT, as_it_is)


def _term_query(word: str) -> Any:
    return _query_of(java_class(f"{INDEX}.Term")(TEXT, word))


def _query_of(term: Any) -> Any:
    return java_class(f"{SEARCH}.TermQuery")(term)


def _documents_query(documents: Documents) -> Any:
    return java_class(f"{FIELDS}.IntPoint").newSetQuery(DOCUMENT, *documents.rows.tolist())


def _scored_among(query: Any, documents: Any) -> Any:
    builder = java_class(f"{SEARCH}.BooleanQuery$Builder")()
    occur = java_class(f"{SEARCH}.BooleanClause$Occur")
    builder.add(query, occur.MUST)
    builder.add(documents, occur.FILTER)
    return builder.build()


def _both(one: Any, other: Any) -> Any:
    builder = java_class(f"{SEARCH}.BooleanQuery$Builder")()
    required = java_class(f"{SEARCH}.BooleanClause$Occur").FILTER
    builder.add(one, required)
    builder.add(other, required)
    return builder.build()

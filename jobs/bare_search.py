"""FAISS and Lucene themselves, over the files of a collection of one segment and one shard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mrag.collection.dense import KEYS
from mrag.collection.jvm import cast, java, java_class, java_path
from mrag.collection.manifest import existing_manifest
from mrag.collection.sparse import KEYS as LUCENE
from mrag.collection.sparse import TEXT
from mrag.collection.vector_files import mapped_vectors
from mrag.settings import SparseSettings

Found = list[tuple[float, int]]


def bare_faiss(root: Path, name: str) -> Callable[[NDArray[np.float32], int], Found]:
    """The best of a vector by FAISS, without a selector."""
    [(_, shard, folder)] = existing_manifest(root, name).shard_folders(root)
    vectors = mapped_vectors(folder / KEYS, (shard.counts.keys, shard.dimension))

    def search(vector: NDArray[np.float32], depth: int) -> Found:
        scores, rows = vectors.search(vector.reshape(1, -1), depth)
        return list(zip(scores[0].tolist(), rows[0].tolist(), strict=True))

    return search


def bare_lucene(root: Path, name: str, sparse: SparseSettings) -> Callable[[str, int], Found]:
    """The best of a text by Lucene with its own statistics, the words analysed and the hits read."""
    [(_, _, folder)] = existing_manifest(root, name).shard_folders(root)
    lucene = "org.apache.lucene"
    with java("Lucene can't search", "see what it says"):
        directory = java_class(f"{lucene}.store.FSDirectory").open(java_path(folder / LUCENE))
        reader = java_class(f"{lucene}.index.DirectoryReader").open(directory)
        searcher = java_class(f"{lucene}.search.IndexSearcher")(cast(f"{lucene}.index.IndexReader", reader))
        similarity = java_class(f"{lucene}.search.similarities.BM25Similarity")(sparse.k1, sparse.b)
        searcher.setSimilarity(similarity)
        analyzer = java_class("io.anserini.analysis.DefaultEnglishAnalyzer").newDefaultInstance()
        utilities = java_class("io.anserini.analysis.AnalyzerUtils")
        should = java_class(f"{lucene}.search.BooleanClause$Occur").SHOULD

    def search(text: str, depth: int) -> Found:
        with java("Lucene can't search", "see what it says"):
            builder = java_class(f"{lucene}.search.BooleanQuery$Builder")()
            for word in Counter(utilities.analyze(analyzer, text).toArray()):
                term = java_class(f"{lucene}.index.Term")(TEXT, word)
                builder.add(java_class(f"{lucene}.search.TermQuery")(term), should)
            hits = searcher.search(builder.build(), depth).scoreDocs
            return [(hit.score, hit.doc) for hit in hits]

    return search

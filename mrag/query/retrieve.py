"""M-RAG III-C: a question becomes a pool of candidates from one generation of a collection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from mrag.collection.manifest import Manifest
from mrag.models.encoder import Kind
from mrag.query.fuse import Grouping, Ranked, fuse
from mrag.query.question import Question
from mrag.schema import Hit, Leg, Pool, Query, Stored, Vectors

Encode = Callable[[Sequence[str], Kind], Awaitable[Vectors]]


class Searchable(Protocol):
    """What retrieval needs of an open collection: one generation, all shards."""

    @property
    def manifest(self) -> Manifest:
        """What the generation consists of."""

    def search(self, query: Query) -> Mapping[Leg, tuple[Hit, ...]]:
        """At most `query.depth` live records of each leg."""

    def fetch(self, record_ids: Sequence[str]) -> tuple[Stored, ...]:
        """The records in the order asked."""


class Retriever:
    """Finds the w best candidates of a question.

    `open_collection` gives the generation in force each time it is called, and may cache it.
    """

    def __init__(self, open_collection: Callable[[str], Searchable], encode: Encode) -> None:
        self._open = open_collection
        self._encode = encode

    async def retrieve(self, question: Question, w: int) -> Pool:
        """The pool of eq. 12, over one generation.

        Raises NotFoundError for an unknown collection, InputError (field `retrieval`) for one that has no
        units to search, CollectionError for a damaged one, ModelError where the question can't be encoded.
        """
        collection = await asyncio.to_thread(self._open, question.collection)
        vector = None
        if "dense" in question.retrieval.legs:
            vector = (await self._encode([question.text], "query"))[0]
        return await asyncio.to_thread(_search, collection, question, vector, w)


def _search(collection: Searchable, question: Question, vector: Vectors | None, w: int) -> Pool:
    """Asks the legs ever deeper, until w candidates are found or the collection has no more."""
    retrieval = question.retrieval
    depth = w * retrieval.depth
    while True:
        hits = collection.search(
            Query(question.text, depth, retrieval.legs, vector, retrieval.name, retrieval.unit_weight)
        )
        scored = {leg: found for leg, hit in hits.items() if (found := _scored(leg, hit))}
        grouping = _winners(collection, fuse(scored, retrieval.rank_constant), w)
        if grouping.full or all(len(found) < depth for found in hits.values()):
            break
        depth *= 2
    silent = [leg for leg in retrieval.legs if leg not in scored]
    notes = tuple(f"The {leg} search found nothing and was left out." for leg in silent)
    return Pool(grouping.candidates(), collection.manifest.generation, notes)


def _scored(leg: Leg, hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """A BM25 score of zero says nothing; an inner product may well be negative."""
    return tuple(hit for hit in hits if leg == "dense" or hit.score > 0)


def _winners(collection: Searchable, ranked: Sequence[Ranked], w: int) -> Grouping:
    grouping = Grouping(w)
    for start in range(0, len(ranked), w):
        batch = ranked[start : start + w]
        grouping.add(zip(batch, collection.fetch([record.record_id for record in batch]), strict=True))
        if grouping.full:
            break
    return grouping

"""M-RAG III-C: a question becomes a pool of candidates from one generation of a collection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from mrag.errors import UnreachableError
from mrag.models.encoder import Kind
from mrag.query.found import Found, Searchable, search_here
from mrag.query.fuse import Grouping, Ranked, fuse, united
from mrag.query.question import Question
from mrag.query.sub_queries import sub_queries
from mrag.schema import Filter, Hit, Leg, Pool, Query, Vectors
from mrag.settings import RetrievalSettings

Encode = Callable[[Sequence[str], Kind], Awaitable[Vectors]]


Search = Callable[[Searchable, Query], Awaitable[Found]]


class Retriever:
    """Finds the w best candidates of a question.

    `open_collection` gives the generation in force each time it is called, and may cache it; `search`
    searches that generation, wherever its indexes are.
    """

    def __init__(
        self, open_collection: Callable[[str], Searchable], encode: Encode, search: Search = search_here
    ) -> None:
        self._open = open_collection
        self._encode = encode
        self._search = search

    async def retrieve(self, question: Question, w: int) -> Pool:
        """The pool of eq. 12, over one generation.

        Where the encoder is out of reach a question is searched for by its words, and the pool is partial.
        Raises NotFoundError for an unknown collection, InputError (field `retrieval`) for one that has no
        units to search, CollectionError for a damaged one, ModelError where the question can't be encoded.
        """
        collection = await asyncio.to_thread(self._open, question.collection)
        texts = [question.searched]
        if question.retrieval.sub_queries == "rule":
            texts += sub_queries(question.searched)
        how, vectors, notes = await self._encoded(texts, question.retrieval)
        asked = zip(texts, vectors, strict=True)
        queries = [_query(question.filter, how, text, vector) for text, vector in asked]
        pool = await self._pool(collection, how, queries, w)
        return replace(pool, notes=notes + pool.notes, partial=True) if notes else pool

    async def _encoded(
        self, texts: Sequence[str], how: RetrievalSettings
    ) -> tuple[RetrievalSettings, Sequence[Vectors | None], tuple[str, ...]]:
        """How to search, a vector for each text where vectors are, and a note where none can be had."""
        if "dense" not in how.legs:
            return how, [None] * len(texts), ()
        try:
            return how, list(await self._encode(texts, "query")), ()
        except UnreachableError as error:
            if "sparse" not in how.legs:
                raise
            note = f"The question could not be encoded ({str(error).rstrip('.')}): only words were searched."
            return how.model_copy(update={"legs": ("sparse",)}), [None] * len(texts), (note,)

    async def _pool(
        self, collection: Searchable, how: RetrievalSettings, queries: Sequence[Query], w: int
    ) -> Pool:
        """Asks the legs ever deeper, until w candidates are found or the collection has no more."""
        depth = w * how.depth
        while True:
            asked = (self._search(collection, replace(query, depth=depth)) for query in queries)
            found = await asyncio.gather(*asked)
            scored = [_scored(one.hits) for one in found]
            ranked = united([fuse(hits, how) for hits in scored], how.rank_constant)
            grouping = await asyncio.to_thread(_winners, collection, ranked, w)
            if grouping.full or all(len(hits) < depth for one in found for hits in one.hits.values()):
                break
            depth *= 2
        missing = tuple(dict.fromkeys(sentence for one in found for sentence in one.missing))
        notes = (*missing, *_notes(how, queries, scored))
        return Pool(grouping.candidates(), collection.manifest.generation, notes, bool(missing))


def _query(filter_: Filter, how: RetrievalSettings, text: str, vector: Vectors | None) -> Query:
    return Query(text, how.depth, how.legs, vector, how.name, how.unit_weight, filter_)


def _scored(found: Mapping[Leg, Sequence[Hit]]) -> Mapping[Leg, Sequence[Hit]]:
    """The legs that say something. A BM25 score of zero says nothing; an inner product may be negative."""
    scored = {leg: [hit for hit in hits if leg == "dense" or hit.score > 0] for leg, hits in found.items()}
    return {leg: hits for leg, hits in scored.items() if hits}


def _notes(
    how: RetrievalSettings, queries: Sequence[Query], scored: Sequence[Mapping[Leg, Sequence[Hit]]]
) -> Iterator[str]:
    for leg in how.legs:
        if not any(leg in legs for legs in scored):
            yield f"The {leg} search found nothing and was left out."
    if queries[0].filter and not any(scored):
        yield "No document that passes the filter was found."
    if parts := [repr(query.text) for query in queries[1:]]:
        yield f"Searched for its parts too: {', '.join(parts)}."


def _winners(collection: Searchable, ranked: Sequence[Ranked], w: int) -> Grouping:
    grouping = Grouping(w)
    for start in range(0, len(ranked), w):
        batch = ranked[start : start + w]
        grouping.add(zip(batch, collection.fetch([record.record_id for record in batch]), strict=True))
        if grouping.full:
            break
    return grouping

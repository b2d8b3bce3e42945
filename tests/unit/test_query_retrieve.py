"""Retrieval: legs are fused, records grouped to candidates, and the search goes as deep as it must."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mrag.collection.filter_forms import parse_filter
from mrag.errors import ModelError, NotFoundError, UnreachableError
from mrag.models.encoder import Kind
from mrag.query.fuse import Grouping, Ranked
from mrag.query.question import Question
from mrag.query.retrieve import Retriever
from mrag.schema import Hit, Leg, Pool, Query, Record, Stored, Vectors
from mrag.settings import RetrievalSettings
from tests.query_pool import info, unit


def stored(record_id: str, document: str = "a", *pointers: int) -> Stored:
    units = pointers or (1,)
    record = Record(record_id, document, (f"key of {record_id}", "other key"), f"value {record_id}", units)
    return Stored(record, info(document), tuple(unit(f"unit {n}", n, document) for n in units))


class FakeCollection:
    """Records in a dictionary, and for each leg a ranking written beforehand."""

    def __init__(self, records: Sequence[Stored], **rankings: Sequence[Hit]) -> None:
        self._records = {one.record.id: one for one in records}
        self._rankings: Mapping[Any, Sequence[Hit]] = rankings
        self.manifest: Any = SimpleNamespace(generation=7)
        self.asked: list[Query] = []

    def search(self, query: Query) -> Mapping[Leg, tuple[Hit, ...]]:
        self.asked.append(query)
        return {leg: tuple(self._rankings.get(leg, ())[: query.depth]) for leg in query.legs}

    def fetch(self, record_ids: Sequence[str]) -> tuple[Stored, ...]:
        return tuple(self._records[record_id] for record_id in record_ids)


async def encode(texts: Sequence[str], kind: Kind) -> Vectors:
    assert kind == "query"
    return np.full((len(texts), 2), 0.5, np.float32)


def ranking(*record_ids: str) -> list[Hit]:
    return [Hit(record_id, 9.0 - rank) for rank, record_id in enumerate(record_ids)]


QUESTION = Question("Which pier?", "harbour")


async def found(collection: FakeCollection, w: int = 2, **retrieval: Any) -> Pool:
    question = replace(QUESTION, retrieval=RetrievalSettings(**retrieval))
    return await Retriever(lambda _: collection, encode).retrieve(question, w)


def ids(pool: Pool) -> list[list[str]]:
    return [[record.id for record in candidate.records] for candidate in pool.candidates]


def test_records_of_the_same_units_are_one_candidate() -> None:
    grouping = Grouping(2)
    records = [stored("r1", "a", 1), stored("r2", "a", 2), stored("r3", "b", 1), stored("r4", "a", 1)]
    scores: list[Mapping[Leg, float]] = [{"dense": 0.3}, {"dense": 0.2}, {"dense": 0.1}, {"sparse": 4.0}]
    grouping.add(
        (Ranked(one.record.id, 1 / n, score, 0), one)
        for n, (one, score) in enumerate(zip(records, scores, strict=True), 1)
    )
    first, second = grouping.candidates()
    assert grouping.full
    assert [record.id for record in first.records] == ["r1", "r4"]
    assert (first.key, first.score, first.scores) == ("key of r1", 1.0, {"dense": 0.3, "sparse": 4.0})
    assert [record.id for record in second.records] == ["r2"]


async def test_a_pool_has_w_candidates_of_one_generation() -> None:
    collection = FakeCollection(
        [stored(f"r{n}", "a", n) for n in range(1, 5)],
        dense=ranking("r1", "r2", "r3"),
        sparse=ranking("r4", "r1"),
    )
    pool = await found(collection)
    assert ids(pool) == [["r1"], ["r4"]]
    assert (pool.generation, pool.notes) == (7, ())
    (query,) = collection.asked
    assert (query.text, query.depth, query.legs) == ("Which pier?", 10, ("dense", "sparse"))
    assert query.vector is not None
    assert query.vector.tolist() == [0.5, 0.5]


async def test_the_fusion_is_the_settings() -> None:
    collection = FakeCollection(
        [stored("r1", "a"), stored("r2", "b"), stored("r3", "c")],
        dense=[Hit("r1", 0.9), Hit("r2", 0.8), Hit("r3", 0.1)],
        sparse=[Hit("r3", 9.0), Hit("r2", 8.0), Hit("r1", 1.0)],
    )
    assert ids(await found(collection, w=3)) == [["r1"], ["r3"], ["r2"]]
    assert ids(await found(collection, w=3, fusion="scores")) == [["r2"], ["r1"], ["r3"]]
    weighted = await found(collection, w=3, fusion="scores", leg_weights={"sparse": 9.0})
    assert ids(weighted) == [["r3"], ["r2"], ["r1"]]
    assert weighted.candidates[0].scores == {"dense": 0.1, "sparse": 9.0}


async def test_the_filter_goes_to_the_search_and_what_it_leaves_is_said() -> None:
    filter_ = parse_filter({"year": 1962})
    collection = FakeCollection([])
    question = replace(QUESTION, filter=filter_)
    pool = await Retriever(lambda _: collection, encode).retrieve(question, 2)
    assert collection.asked[0].filter == filter_
    assert "No document that passes the filter was found." in pool.notes


async def test_parts_of_a_question_are_searched_beside_it_where_that_is_set() -> None:
    class ByText(FakeCollection):
        def search(self, query: Query) -> Mapping[Leg, tuple[Hit, ...]]:
            self.asked.append(query)
            best = {"Rurik Tamsin older": "tamsin", "Ada Holm older": "holm"}.get(query.text, "both")
            return {leg: tuple(ranking(best, "other")) for leg in query.legs}

    records = [stored(name, name) for name in ("both", "tamsin", "holm", "other")]
    question = replace(QUESTION, text="Who is older, Rurik Tamsin or Ada Holm?")
    off, on = ByText(records), ByText(records)
    await Retriever(lambda _: off, encode).retrieve(question, 3)
    how = RetrievalSettings(sub_queries="rule")
    pool = await Retriever(lambda _: on, encode).retrieve(replace(question, retrieval=how), 4)
    assert [query.text for query in off.asked] == [question.text]
    assert [query.text for query in on.asked] == [question.text, "Rurik Tamsin older", "Ada Holm older"]
    assert all(query.vector is not None for query in on.asked)
    assert ids(pool) == [["other"], ["both"], ["holm"], ["tamsin"]]
    assert pool.notes == ("Searched for its parts too: 'Rurik Tamsin older', 'Ada Holm older'.",)


async def test_a_question_says_what_is_searched() -> None:
    collection = FakeCollection([stored("r1")], dense=ranking("r1"), sparse=[Hit("r1", 2.0, None)])
    pool = await found(collection, name="keys+units", unit_weight=0.5)
    await found(collection)
    units, keys = collection.asked
    assert (units.searched, units.unit_weight, keys.searched) == ("keys+units", 0.5, "keys")
    assert ids(pool) == [["r1"]]


async def test_the_search_goes_deeper_until_w_units_are_found() -> None:
    same = [stored(f"r{n:02}", "a", 1) for n in range(20)]
    collection = FakeCollection(
        [*same, stored("z", "b", 1)], dense=ranking(*(one.record.id for one in same), "z")
    )
    pool = await found(collection, legs=("dense",), depth=2)
    assert [query.depth for query in collection.asked] == [4, 8, 16, 32]
    assert [len(group) for group in ids(pool)] == [20, 1]


async def test_the_search_ends_where_the_collection_does() -> None:
    collection = FakeCollection([stored("r1"), stored("r2")], dense=ranking("r1", "r2"))
    pool = await found(collection, w=5, depth=1)
    assert len(collection.asked) == 1
    assert ids(pool) == [["r1", "r2"]]


@pytest.mark.parametrize("fusion", ["rank", "scores"])
async def test_a_silent_leg_is_noted_and_left_out(fusion: str) -> None:
    collection = FakeCollection(
        [stored("r1"), stored("r2", "b")], dense=ranking("r1"), sparse=[Hit("r2", 0.0)]
    )
    pool = await found(collection, fusion=fusion)
    assert ids(pool) == [["r1"]]
    assert pool.notes == ("The sparse search found nothing and was left out.",)


async def test_a_negative_inner_product_still_ranks() -> None:
    collection = FakeCollection([stored("r1")], dense=[Hit("r1", -0.2)])
    assert ids(await found(collection, legs=("dense",))) == [["r1"]]


async def test_without_the_dense_leg_nothing_is_encoded() -> None:
    async def down(texts: Sequence[str], kind: Kind) -> Vectors:
        raise ModelError("The encoder is down.")

    collection = FakeCollection([stored("r1")], sparse=ranking("r1"))
    question = replace(QUESTION, retrieval=RetrievalSettings(legs=("sparse",)))
    pool = await Retriever(lambda _: collection, down).retrieve(question, 2)
    assert ids(pool) == [["r1"]]
    assert collection.asked[0].vector is None
    assert (pool.partial, any("encoded" in note for note in pool.notes)) == (False, False)
    dense = replace(QUESTION, retrieval=RetrievalSettings(legs=("dense",)))
    with pytest.raises(ModelError, match="encoder is down"):
        await Retriever(lambda _: collection, down).retrieve(dense, 2)


async def test_without_the_encoder_words_are_searched_and_that_is_told() -> None:
    async def down(texts: Sequence[str], kind: Kind) -> Vectors:
        raise UnreachableError("The encoder is down.")

    collection = FakeCollection([stored("r1")], sparse=ranking("r1"), dense=ranking("r1"))
    pool = await Retriever(lambda _: collection, down).retrieve(QUESTION, 2)
    assert (ids(pool), pool.partial) == ([["r1"]], True)
    assert pool.notes == (
        "The question could not be encoded (The encoder is down): only words were searched.",
    )
    assert {query.legs for query in collection.asked} == {("sparse",)}


async def test_an_empty_collection_gives_an_empty_pool() -> None:
    pool = await found(FakeCollection([]))
    assert pool.candidates == ()
    assert len(pool.notes) == 2


async def test_an_unknown_collection_is_the_openers_error() -> None:
    def opener(name: str) -> FakeCollection:
        raise NotFoundError("collection", f"There is no collection {name}.")

    with pytest.raises(NotFoundError, match="harbour"):
        await Retriever(opener, encode).retrieve(QUESTION, 2)

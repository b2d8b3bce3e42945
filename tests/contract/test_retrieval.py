"""Questions over collections on disk: no leak between them, any language, and filters under a pool."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from mrag.collection import ShardEntry
from mrag.errors import NotFoundError
from mrag.models.encoder import Kind
from mrag.models.language_model import Request
from mrag.models.scripted import ScriptedModel
from mrag.query.local import local_pipeline
from mrag.query.opened import OpenCollections
from mrag.query.pipeline import Pipeline
from mrag.query.question import checked_question
from mrag.query.retrieve import Retriever
from mrag.schema import Pool, Vectors
from mrag.settings import parse_settings
from tests.collection_corpus import (
    DIMENSION,
    STAMP,
    STAMP_WITH_UNITS,
    add,
    make_entry,
    vectors_of,
    with_metadata,
    with_units,
)

PLAIN = {"name": "plain", "budget_tokens": 40}


class HashEncoder:
    """The vectors of the test collections."""

    fingerprint = STAMP.encoder
    dimension = DIMENSION

    def encode(self, texts: Sequence[str], kind: Kind) -> Vectors:
        return vectors_of(texts)


async def encode(texts: Sequence[str], kind: Kind) -> Vectors:
    return vectors_of(texts)


def pipeline_over(root: Path) -> Pipeline:
    """Answers with what it is given to read."""

    def read_out(request: Request) -> str:
        return request.messages[-1].content

    settings = parse_settings({"collection": {"root": str(root)}})
    return local_pipeline(settings, ScriptedModel(read_out), HashEncoder())


async def pool_of(root: Path, text: str, name: str = "c", w: int = 5, **more: object) -> Pool:
    question = checked_question(text, name, {"name": "keys"}, **more)  # type: ignore[arg-type]
    return await Retriever(OpenCollections(root, STAMP.encoder), encode).retrieve(question, w)


# --------------------------------------------------------------------------- several collections

FERRIES = [f"Ferry{number}" for number in range(20)]


def facts(colour: str) -> list[ShardEntry]:
    return [
        make_entry(f"{ferry}.md", [[f"What colour is {ferry}?"]], f"{ferry} is {colour}.")
        for ferry in FERRIES
    ]


async def test_collections_of_opposite_facts_never_answer_for_each_other(tmp_path: Path) -> None:
    """Scenario 34: a thousand questions, in turns and at once."""
    add(tmp_path, "north", facts("red"), shards=2)
    add(tmp_path, "south", facts("blue"))
    pipeline, turns, chance = pipeline_over(tmp_path), asyncio.Semaphore(32), random.Random(0)

    async def asked(number: int) -> None:
        name, own, other = [("north", "red", "blue"), ("south", "blue", "red")][number % 2]
        ferry = chance.choice(FERRIES)
        async with turns:
            answer = await pipeline.answer(
                checked_question(f"What colour is {ferry}?", name, {"name": "keys"}, PLAIN)
            )
        assert f"{ferry} is {own}." in answer.text
        assert other not in str(asdict(answer))

    await asyncio.gather(*(asked(number) for number in range(1000)))


async def test_a_collection_that_is_not_there_is_nobody_elses(tmp_path: Path) -> None:
    add(tmp_path, "north", facts("red"))
    pipeline = pipeline_over(tmp_path)
    for name in ("south", "north2", "North"):
        with pytest.raises(NotFoundError) as raised:
            await pipeline.answer(checked_question("What colour is Ferry1?", name, {"name": "keys"}, PLAIN))
        assert raised.value.field == "collection"


# --------------------------------------------------------------------------- languages

CHINESE = ["渡船是谁设计的", "灯塔建于哪一年", "港口有多少座桥"]


def chinese() -> list[ShardEntry]:
    return [make_entry(f"d{number}", [[text]]) for number, text in enumerate(CHINESE)]


@pytest.mark.parametrize("fusion", ["rank", "scores"])
async def test_chinese_is_found_by_both_legs_where_its_analyzer_is_set(tmp_path: Path, fusion: str) -> None:
    """Scenario 26, its first half."""
    add(tmp_path, "c", chinese(), stamp=replace(STAMP, analyzer="zh"))
    question = checked_question("灯塔建于哪一年？", "c", {"name": "keys", "fusion": fusion})
    pool = await Retriever(OpenCollections(tmp_path, STAMP.encoder), encode).retrieve(question, 3)
    assert pool.notes == ()
    assert pool.candidates[0].document.id == "d1"
    assert pool.candidates[0].scores["sparse"] > 0


@pytest.mark.parametrize("fusion", ["rank", "scores"])
async def test_a_leg_without_a_word_of_the_question_is_left_out_and_said_so(
    tmp_path: Path, fusion: str
) -> None:
    """Scenario 26, its second half: what scored nothing ranks nothing."""
    add(tmp_path, "c", facts("red"))
    how = {"name": "keys", "fusion": fusion}
    retriever = Retriever(OpenCollections(tmp_path, STAMP.encoder), encode)
    both = await retriever.retrieve(checked_question(CHINESE[0], "c", how), 5)
    dense = await retriever.retrieve(checked_question(CHINESE[0], "c", {**how, "legs": ["dense"]}), 5)
    assert both.notes == ("The sparse search found nothing and was left out.",)
    assert both.candidates == dense.candidates
    assert all(candidate.scores.keys() == {"dense"} for candidate in both.candidates)


# --------------------------------------------------------------------------- filters


@pytest.mark.parametrize("searched", ["keys", "keys+units"])
async def test_a_pool_is_as_wide_as_what_passes_the_filter(tmp_path: Path, searched: str) -> None:
    entries = [
        with_units(
            with_metadata(make_entry(f"d{n:02}", [[f"copper pier {n}"]]), year=2000 + n, rare=n % 7 == 0)
        )
        for n in range(40)
    ]
    add(tmp_path, "c", entries, shards=2, stamp=STAMP_WITH_UNITS)
    retriever = Retriever(OpenCollections(tmp_path, STAMP.encoder), encode)
    tree = {"rare": True, "year": {"gte": 2007}}
    question = checked_question("copper pier", "c", {"name": searched, "depth": 1}, filter_=tree)
    pool = await retriever.retrieve(question, 10)
    assert {candidate.document.id for candidate in pool.candidates} == {"d07", "d14", "d21", "d28", "d35"}
    assert pool.notes == ()
    few = await retriever.retrieve(question, 3)
    assert len(few.candidates) == 3


async def test_a_filter_that_nothing_passes_gives_an_empty_pool_and_says_so(tmp_path: Path) -> None:
    add(tmp_path, "c", facts("red"))
    pool = await pool_of(tmp_path, "What colour is Ferry1?", filter_={"year": {"gt": 1900}})
    assert pool.candidates == ()
    assert "No document that passes the filter was found." in pool.notes

"""A collection searched in parts finds what it finds as a whole, and says which part is missing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from mrag.collection import Collection, shard_of
from mrag.collection.filter_forms import parse_filter
from mrag.collection.manifest import Part, existing_manifest
from mrag.collection.sparse import SparseStatistics
from mrag.errors import CollectionError, InputError, ModelError
from mrag.indexing.compact import compact
from mrag.models.encoder import Kind
from mrag.query.opened import OpenCollections
from mrag.query.question import Question, checked_question
from mrag.query.retrieve import Retriever
from mrag.query.spread import Hits, PartSearcher, Spread
from mrag.schema import Hit, Query, Vectors
from mrag.settings import parse_settings
from tests.collection_corpus import STAMP, STAMP_WITH_UNITS, add, ask, make_entry, vectors_of
from tests.contract.test_filters import QUERIES, corpus
from tests.exact_reference import assert_best

FILTERS = ({}, {"lang": ["en", "sv"]}, {"number": {"lt": 6}}, {"nothing": 1})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Segments of one, three and four shards; some documents are replaced, some are gone."""
    root = tmp_path_factory.mktemp("root")
    first = corpus(40)
    for run, shards in ((first[:13], 1), (first[13:], 3), (corpus(9, seed=1), 4)):
        add(root, "c", run, shards, stamp=STAMP_WITH_UNITS)
    add(root, "c", [], replaced={"d020", "d021", "d039"}, stamp=STAMP_WITH_UNITS)
    return root


def searchers(root: Path, parts: int) -> list[PartSearcher]:
    return [PartSearcher(root, Part(index, parts), STAMP.encoder) for index in range(parts)]


async def encode(texts: Sequence[str], kind: Kind) -> Vectors:
    return vectors_of(texts)


def asked(text: str) -> Question:
    return checked_question(text, "c", {"name": "keys"})


class Broken:
    """A searcher that fails, or never answers."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    async def prepare(self, name: str, generation: int) -> None:
        await self._fail()

    async def statistics(self, name: str, generation: int, query: Query) -> SparseStatistics:
        await self._fail()
        return SparseStatistics()

    async def search(
        self, name: str, generation: int, query: Query, statistics: SparseStatistics | None
    ) -> Hits:
        await self._fail()
        return {}

    async def _fail(self) -> None:
        if self._error is None:
            await asyncio.Event().wait()
        else:
            raise self._error


def scores(hits: Sequence[Hit]) -> Mapping[str, float]:
    return {hit.record_id: hit.score for hit in hits}


# --------------------------------------------------------------------------- exact


@pytest.mark.parametrize("parts", [2, 3, 7])
async def test_parts_find_what_the_whole_finds(root: Path, parts: int) -> None:
    whole = Collection.open(root, "c")
    spread = Spread(searchers(root, parts), 60, partial=False)
    for text, weight, raw in product(QUERIES, (None, 2.0), FILTERS):
        filter_ = parse_filter(raw) if raw else ()
        everything = whole.search(ask(text, 1000, weight, filter_))
        for depth in (1, 7, 1000):
            found = await spread.search(whole, ask(text, depth, weight, filter_))
            assert not found.missing
            for leg, hits in found.hits.items():
                assert_best(hits, scores(everything[leg]), depth)
                known = {hit.record_id: hit.key for hit in everything[leg]}
                assert [hit.key for hit in hits] == [known[hit.record_id] for hit in hits]


GERMAN = "Die Häuser an den Flüssen wurden im vergangenen Jahrhundert von den Fischern der Stadt gebaut"
ENGLISH = "The houses by the rivers were built in the last century by the fishermen of the town"


async def test_a_word_is_the_same_in_parts_of_other_languages(tmp_path: Path) -> None:
    """Each part would analyse a question for its own texts alone."""
    named = {shard: next(f"d{n}" for n in range(99) if shard_of(f"d{n}", 2) == shard) for shard in (0, 1)}
    more = next(f"m{n}" for n in range(99) if shard_of(f"m{n}", 2) == 0)
    entries = [
        make_entry(
            named[0], [[ENGLISH], ["The Fluss and the Haus are words of another language of the town"]]
        ),
        make_entry(more, [["A ferry crosses the river twice a day, said the oldest of the fishermen"]]),
        make_entry(
            named[1], [[GERMAN], ["Ein Haus am Fluss ist in dieser Stadt immer teurer als die anderen"]]
        ),
    ]
    add(tmp_path, "c", entries, shards=2, stamp=replace(STAMP, analyzer="auto"))
    whole = Collection.open(tmp_path, "c")
    spread = Spread(searchers(tmp_path, 2), 60, partial=False)
    for text in ("Flüsse und Häuser der Fischer", "houses by the river", "Fluss Haus town"):
        found = (await spread.search(whole, ask(text, 100))).hits["sparse"]
        assert_best(found, scores(whole.search(ask(text, 100))["sparse"]), 100)
        assert found


async def test_the_parts_are_all_of_the_collection_and_nothing_twice(root: Path) -> None:
    manifest = existing_manifest(root, "c")
    folders = [path for _, _, path in manifest.shard_folders(root)]
    for parts in (1, 2, 3, 7):
        held = [
            path for index in range(parts) for _, _, path in manifest.shard_folders(root, Part(index, parts))
        ]
        assert sorted(held) == sorted(folders)


async def test_a_pool_is_the_same_in_parts(root: Path) -> None:
    here = Retriever(OpenCollections(root, STAMP.encoder), encode)
    spread = Spread(searchers(root, 3), 60, partial=False)
    there = Retriever(OpenCollections(root, STAMP.encoder, legs=()), encode, spread.search)
    for text in QUERIES:
        one = await here.retrieve(asked(text), 8)
        other = await there.retrieve(asked(text), 8)
        assert [c.units for c in one.candidates] == [c.units for c in other.candidates]
        assert (one.generation, one.notes, one.partial) == (other.generation, other.notes, other.partial)


# --------------------------------------------------------------------------- missing parts


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (Broken(CollectionError("Its file is damaged: restore it.")), "it can't be read: the log says more"),
        (Broken(ModelError("The stage is restarting.")), "The stage is restarting"),
        (Broken(OSError("No such file: /srv/secret")), "it can't be read: the log says more"),
        (Broken(), "it did not answer within 0.2 s"),
    ],
    ids=["damaged", "down", "a fault", "late"],
)
async def test_a_part_that_does_not_answer_is_named_and_the_others_answer(
    root: Path, broken: Broken, reason: str
) -> None:
    whole = Collection.open(root, "c")
    one, other, _ = searchers(root, 3)
    for searcher in (one, other):
        await searcher.prepare("c", whole.manifest.generation)
    query = ask("copper engine copper", 1000)
    found = await Spread([one, broken, other], 0.2, partial=True).search(whole, query)
    assert found.missing == (f"Part 2 of 3 of the collection is missing ({reason}).",)
    alone = await Spread([one, other], 60, partial=False).search(whole, query)
    assert found.hits == alone.hits
    assert found.hits["dense"]


async def test_without_partial_a_missing_part_is_an_error(root: Path) -> None:
    whole = Collection.open(root, "c")
    spread = Spread([*searchers(root, 2), Broken(ModelError("It is down."))], 60, partial=False)
    with pytest.raises(ModelError, match=r"It is down\."):
        await spread.search(whole, ask("castle"))


async def test_where_no_part_is_left_there_is_an_error(root: Path) -> None:
    whole = Collection.open(root, "c")
    broken = Broken(CollectionError("Its file is damaged."))
    with pytest.raises(CollectionError, match="damaged"):
        await Spread([broken, broken], 60, partial=True).search(whole, ask("castle"))


async def test_what_the_caller_asked_wrongly_is_his_error_not_a_missing_part(root: Path) -> None:
    whole = Collection.open(root, "c")
    spread = Spread(searchers(root, 2), 60, partial=True)
    with pytest.raises(InputError, match="finite numbers"):
        await spread.search(whole, Query("castle", 5))


async def test_a_pool_with_a_missing_part_is_partial(root: Path) -> None:
    spread = Spread([*searchers(root, 3)[:2], Broken(ModelError("It is down."))], 60, partial=True)
    retriever = Retriever(OpenCollections(root, STAMP.encoder, legs=()), encode, spread.search)
    pool = await retriever.retrieve(asked("copper river"), 5)
    assert pool.partial
    assert pool.notes == ("Part 3 of 3 of the collection is missing (It is down).",)


# --------------------------------------------------------------------------- generations


async def test_a_part_holds_the_generation_before_beside_the_new_one(tmp_path: Path) -> None:
    for number in range(4):
        add(tmp_path, "c", corpus(8, seed=number), shards=2, stamp=STAMP_WITH_UNITS)
    spread = Spread(searchers(tmp_path, 2), 60, partial=False)
    for generation in (2, 3, 2, 4, 3):
        whole = Collection.open(tmp_path, "c", generation=generation)
        query = ask("winter signal", 1000)
        found = await spread.search(whole, query)
        assert scores(found.hits["sparse"]) == pytest.approx(scores(whole.search(query)["sparse"]), rel=1e-5)


async def test_what_is_open_is_searched_when_a_compaction_has_removed_its_manifest(tmp_path: Path) -> None:
    for number in range(3):
        add(tmp_path, "c", corpus(8, seed=number), shards=2, stamp=STAMP_WITH_UNITS)
    before = Collection.open(tmp_path, "c")
    held = searchers(tmp_path, 2)
    spread, query = Spread(held, 60, partial=False), ask("winter signal", 1000)
    expected = await spread.search(before, query)
    compact(parse_settings({"collection": {"root": tmp_path, "name": "c", "shards": 2}}))
    assert await spread.search(before, query) == expected
    after = Collection.open(tmp_path, "c")
    assert after.manifest.generation > before.manifest.generation
    found = await spread.search(after, query)
    assert scores(found.hits["sparse"]) == pytest.approx(scores(expected.hits["sparse"]), rel=1e-5)
    late = await Spread([held[0], searchers(tmp_path, 2)[1]], 60, partial=True).search(before, query)
    assert late.missing == (
        "Part 2 of 2 of the collection is missing (it can't be read: the log says more).",
    )


@pytest.mark.parametrize("damaged", ["CURRENT", "manifests/000001.json"])
async def test_what_is_open_is_searched_when_nobody_can_read_what_is_in_force(
    tmp_path: Path, damaged: str
) -> None:
    add(tmp_path, "c", corpus(8), shards=2, stamp=STAMP_WITH_UNITS)
    opened = OpenCollections(tmp_path, STAMP.encoder, legs=())
    spread, query = Spread(searchers(tmp_path, 2), 60, partial=False), ask("winter signal", 1000)
    expected = await spread.search(opened("c"), query)
    (tmp_path / "c" / damaged).write_text("?")
    assert await spread.search(opened("c"), query) == expected


async def test_a_generation_that_a_part_cannot_open_is_not_prepared(root: Path) -> None:
    whole = Collection.open(root, "c")
    await Spread([*searchers(root, 2), Broken(ModelError("It is down."))], 60, True).prepare(whole.manifest)
    damaged = Broken(CollectionError("Its file is damaged."))
    with pytest.raises(CollectionError, match="damaged"):
        await Spread([*searchers(root, 2), damaged], 60, True).prepare(whole.manifest)


async def test_a_part_that_never_prepares_keeps_the_generation_before(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mrag.query.spread.PREPARE_S", 0.2)
    with pytest.raises(CollectionError, match="did not answer within"):
        await Spread([*searchers(root, 1), Broken()], 60, True).prepare(Collection.open(root, "c").manifest)


async def test_the_generation_before_serves_until_all_parts_have_the_next(tmp_path: Path) -> None:
    add(tmp_path, "c", corpus(6), shards=2, stamp=STAMP_WITH_UNITS)
    refused: list[int] = []

    def prepare(manifest: object) -> None:
        refused.append(manifest.generation)  # type: ignore[attr-defined]
        raise CollectionError("A part can't open it.")

    opened = OpenCollections(tmp_path, STAMP.encoder, legs=(), prepare=prepare, retry_s=0)
    assert opened("c").manifest.generation == 1  # no older one: it serves as far as it goes
    add(tmp_path, "c", corpus(3, seed=5), shards=2, stamp=STAMP_WITH_UNITS)
    assert opened("c").manifest.generation == 1
    add(tmp_path, "c", [], replaced={"d005"}, stamp=STAMP_WITH_UNITS)
    assert opened("c").manifest.generation == 3  # what was deleted is not served for want of a part
    assert refused == [1, 2, 3]

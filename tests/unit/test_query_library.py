"""What collections hold, asked without a question: over collections on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrag.collection import Collection, describe, publish
from mrag.errors import NotFoundError
from mrag.query.library import Library
from mrag.query.opened import OpenCollections
from mrag.schema import RecordKind
from tests.collection_corpus import STAMP, add, built_entry, make_entry

TEXTS = ("Alma was built in 1962.", "Runa is a barge.")
RECORDS = [
    (RecordKind.MARKER, (1, 2), ["When was Alma built?"], "1962"),
    (RecordKind.FALLBACK, (2,), [TEXTS[1]], TEXTS[1]),
]
ODD = "boats/öre #1?.md"


@pytest.fixture
def library(tmp_path: Path) -> Library:
    add(tmp_path, "harbour", [built_entry(ODD, TEXTS, RECORDS), make_entry("pier", [["Old?"], ["Long?"]])])
    add(tmp_path, "empty", [])
    return Library(tmp_path, OpenCollections(tmp_path, STAMP.encoder))


async def test_a_document_shows_its_units_and_the_records_that_point_to_each(library: Library) -> None:
    found = await library.document("harbour", ODD)
    assert (found.id, found.collection, found.generation) == (ODD, "harbour", 1)
    assert (found.title, found.metadata) == (f"About {ODD}", {"year": 1900})
    assert [found.text[unit.start : unit.end] for unit in found.units] == list(TEXTS)
    assert [[(record.value, record.fallback) for record in unit.records] for unit in found.units] == [
        [("1962", False)],
        [("1962", False), (TEXTS[1], True)],
    ]
    assert found.units[0].records[0].keys == ("When was Alma built?",)


@pytest.mark.parametrize(
    ("collection", "document", "field"), [("harbour", "nowhere", "document"), ("nowhere", ODD, "collection")]
)
async def test_what_is_not_there_is_named(
    library: Library, collection: str, document: str, field: str
) -> None:
    with pytest.raises(NotFoundError) as caught:
        await library.document(collection, document)
    assert caught.value.field == field


async def test_collections_are_listed_and_a_damaged_one_costs_only_itself(
    library: Library, tmp_path: Path
) -> None:
    add(tmp_path, "broken", [make_entry("x", [["y"]])])
    (tmp_path / "broken" / "CURRENT").write_text("nonsense")
    listed = await library.collections()
    assert [one.name for one in listed] == ["empty", "harbour"]
    assert (listed[1].generation, listed[1].counts.documents, listed[1].counts.records) == (1, 2, 4)
    assert await library.overview("harbour") == listed[1]


async def test_a_description_tells_segments_sizes_and_what_is_dead(library: Library, tmp_path: Path) -> None:
    publish(tmp_path, "harbour", STAMP, None, replaced=["pier"])
    add(tmp_path, "harbour", [make_entry("quay", [["New?"]])])
    found = await library.describe("harbour")
    assert (found.generation, found.generations, found.removal) == (3, (1, 2, 3), 2)
    assert [(segment.generation, len(segment.shards)) for segment in found.segments] == [(1, 1), (3, 1)]
    assert found.bytes == sum(shard.bytes for segment in found.segments for shard in segment.shards) > 0
    assert found.dead_share == pytest.approx(2 / 5)
    assert (found.encoder, found.dimension) == (STAMP.encoder, STAMP.dimension)
    assert Collection.open(tmp_path, "harbour", legs=()).manifest.counts == found.counts


def test_nothing_is_dead_where_nothing_is(library: Library, tmp_path: Path) -> None:
    assert describe(tmp_path, "empty").dead_share == 0

"""The units beside selected ones: nearest first, none twice, none of another generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mrag.collection import Collection
from mrag.errors import CollectionError
from mrag.query.neighbours import Neighbours
from mrag.query.question import Question
from mrag.schema import Candidate, SourceUnit
from tests.collection_corpus import add, make_entry
from tests.query_pool import candidate, unit

QUESTION = Question("Which pier?", "harbour")
LENGTHS = {"a": 9, "b": 2}


class Piers:
    """Documents of numbered units at generation 3."""

    manifest: Any = SimpleNamespace(generation=3)

    def units(self, document_id: str, numbers: Sequence[int]) -> tuple[SourceUnit, ...]:
        return tuple(unit(f"Pier {n}.", n, document_id) for n in numbers if 1 <= n <= LENGTHS[document_id])


def of(document_id: str, *numbers: int) -> Candidate:
    one = candidate("Pier.", document_id)
    return replace(one, units=tuple(unit(f"Pier {n}.", n, document_id) for n in numbers))


async def places(selected: Sequence[Candidate], n: int) -> list[tuple[str, int]]:
    around = await Neighbours(lambda _: Piers()).around(QUESTION, selected, 3, n)
    assert around.notes == ()
    assert all(not one.records and len(one.units) == 1 for one in around.candidates)
    return [(one.document.id, one.units[0].number) for one in around.candidates]


@pytest.mark.parametrize(
    ("selected", "n", "expected"),
    [
        ([("a", 4)], 1, ["a3", "a5"]),
        ([("a", 4)], 2, ["a3", "a5", "a2", "a6"]),
        ([("a", 1)], 2, ["a2", "a3"]),
        ([("a", 9)], 1, ["a8"]),
        ([("a", 4, 5)], 1, ["a3", "a6"]),
        ([("a", 4), ("a", 6)], 1, ["a3", "a5", "a7"]),
        ([("b", 1), ("a", 4)], 2, ["b2", "a3", "a5", "a2", "a6"]),
        ([("b", 1), ("b", 2)], 10, []),
        ([], 3, []),
    ],
)
async def test_the_nearest_come_first_and_none_twice(
    selected: list[tuple[Any, ...]], n: int, expected: list[str]
) -> None:
    found = await places([of(*one) for one in selected], n)
    assert [f"{document}{number}" for document, number in found] == expected


async def test_another_generation_has_no_neighbours_to_give() -> None:
    around = await Neighbours(lambda _: Piers()).around(QUESTION, [of("a", 4)], 2, 1)
    assert around.candidates == ()
    assert around.notes == ("Neighbours are left out: the collection changed since it was searched.",)


async def test_a_damaged_collection_costs_the_neighbours_alone() -> None:
    def opener(name: str) -> Piers:
        raise CollectionError("/data/secret is damaged.")

    around = await Neighbours(opener).around(QUESTION, [of("a", 4)], 3, 1)
    assert (around.candidates, around.notes) == (
        (),
        ("Neighbours are left out: the collection can't be read as it is.",),
    )


def test_a_collection_gives_the_units_of_the_numbers_that_it_has(tmp_path: Path) -> None:
    entry = make_entry("d", [["one"], ["two"], ["three"]])
    add(tmp_path, "c", [make_entry("before", [["x"]]), entry, make_entry("after", [["y"]])])
    collection = Collection.open(tmp_path, "c")
    units = entry.built.units
    assert collection.units("d", [2, 9, 1, 0, -1, 4]) == (units[1], units[0])
    assert collection.units("d", []) == ()
    assert collection.units("d") == units

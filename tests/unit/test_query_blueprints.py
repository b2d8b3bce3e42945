"""Blueprints: those that ship, one of a user's own without code, and bad ones by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mrag.errors import SettingsError
from mrag.models.scripted import Rule, ScriptedModel
from mrag.query.blueprints import load_blueprints
from mrag.query.evidence import EvidenceExtractor
from tests.query_pool import candidate

FERRY = candidate("The ferry Alma was built in 1962. It carries 90 passengers.", "ferry", title="Ferries")


def table(*rows: object, schema: str = "ATOMIC") -> dict[str, Any]:
    return {"table": {"schema": schema, "rows": list(rows)}}


MINE = """
name: CAUSAL
structure: causes and effects
use_when: the question asks why
columns:
  - {name: cause, definition: what brought it about}
  - {name: effect, definition: what came of it, rules: In one sentence.}
  - {name: source, definition: the document}
"""


async def test_a_blueprint_needs_a_file_and_no_code(tmp_path: Path) -> None:
    (tmp_path / "causal.yaml").write_text(MINE)
    (tmp_path / "notes.txt").write_text("no blueprint")
    blueprints = load_blueprints(tmp_path)
    assert [one.name for one in blueprints] == ["ATOMIC", "CAUSAL", "COMPARATIVE", "TEMPORAL"]
    row = {"source": "S1", "cause": "It was built.", "effect": "The ferry Alma."}
    model = ScriptedModel([Rule(table(row, schema="CAUSAL"))])
    extraction = await EvidenceExtractor(model, blueprints).extract("Why is there a ferry?", [FERRY])
    assert (extraction.table.schema, extraction.table.columns) == ("CAUSAL", ("cause", "effect"))
    assert len(extraction.table.facts) == 1
    (request,) = model.asked
    assert "CAUSAL (causes and effects). Use when the question asks why." in request.messages[0].content
    assert "- effect: what came of it. In one sentence." in request.messages[0].content
    assert '"cause"' in json.dumps(request.schema)


def test_a_blueprint_may_take_the_place_of_a_shipped_one(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(MINE.replace("CAUSAL", "ATOMIC"))
    atomic = load_blueprints(tmp_path)[0]
    assert [column.name for column in atomic.cells] == ["cause", "effect"]


@pytest.mark.parametrize("text", ["", "- a list", "name: X", "name: [", MINE + "extra: 1\n", "\x00"])
def test_a_bad_blueprint_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(SettingsError, match=r"bad\.yaml is no blueprint"):
        load_blueprints(tmp_path)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        (["cause", "cause"], "column cause stands there twice"),
        (["cause", "schema"], "schema is the table's name in a reply"),
        (["source", "evidence quote"], "give it a column that states something"),
    ],
)
def test_columns_that_no_row_can_have_are_refused(tmp_path: Path, columns: list[str], reason: str) -> None:
    listed = "".join(f"  - {{name: {name}, definition: what it is}}\n" for name in columns)
    (tmp_path / "bad.yaml").write_text(f"name: X\nstructure: x\nuse_when: never\ncolumns:\n{listed}")
    with pytest.raises(SettingsError, match=rf"bad\.yaml is no blueprint: .*{reason}"):
        load_blueprints(tmp_path)


LINEUP = """
name: A LINEUP
structure: players
use_when: the question asks who played where
columns:
  - {name: fact, definition: what is told of the player}
  - {name: position, definition: the number on the shirt}
"""


@pytest.mark.parametrize(("orders", "holds"), [("", False), (", orders: true", True)])
async def test_a_position_needs_no_quote_only_where_its_blueprint_says_that_it_orders(
    tmp_path: Path, orders: str, holds: bool
) -> None:
    (tmp_path / "lineup.yaml").write_text(LINEUP.replace("the shirt}", f"the shirt{orders}}}"))
    row = {"source": "S1", "fact": "The ferry Alma was built in 1962.", "position": "7"}
    model = ScriptedModel([Rule(table(row, schema="A LINEUP"))])
    extraction = await EvidenceExtractor(model, load_blueprints(tmp_path)).extract("Which?", [FERRY])
    assert (extraction.table.schema, len(extraction.table.facts)) == ("A LINEUP", int(holds))


@pytest.mark.parametrize("schema", ["ATOMIC", "A LINEUP"])
async def test_of_two_blueprints_with_the_columns_the_named_one_is_meant(tmp_path: Path, schema: str) -> None:
    (tmp_path / "lineup.yaml").write_text(LINEUP)
    row = {"source": "S1", "fact": "The ferry Alma was built in 1962."}
    model = ScriptedModel([Rule(table(row, schema=schema))])
    extraction = await EvidenceExtractor(model, load_blueprints(tmp_path)).extract("When?", [FERRY])
    assert extraction.table.schema == schema


def test_only_what_places_rows_can_order_them(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(MINE.replace("brought it about}", "brought it about, orders: true}"))
    with pytest.raises(SettingsError, match="only date precision and position can order rows, not cause"):
        load_blueprints(tmp_path)


def test_two_blueprints_of_one_name_are_refused_and_either_suffix_is_read(tmp_path: Path) -> None:
    (tmp_path / "one.yml").write_text(MINE)
    assert "CAUSAL" in [one.name for one in load_blueprints(tmp_path)]
    (tmp_path / "two.yaml").write_text(MINE)
    with pytest.raises(SettingsError, match=r"two\.yaml is a second blueprint CAUSAL"):
        load_blueprints(tmp_path)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"Can't read the blueprints in .*nowhere"):
        load_blueprints(tmp_path / "nowhere")


def test_the_shipped_blueprints_have_the_columns_of_tables_9_to_11() -> None:
    shipped = {one.name: [column.name for column in one.columns] for one in load_blueprints()}
    assert shipped == {
        "ATOMIC": ["fact", "evidence quote", "source", "source date"],
        "COMPARATIVE": ["entity", "dimension", "value", "unit", "evidence quote", "source"],
        "TEMPORAL": ["event", "position", "resolved date", "date precision", "evidence quote", "source"],
    }


@pytest.mark.parametrize(
    ("blueprint", "column", "said"),
    [
        ("ATOMIC", "fact", ['"and", "but" or "or"', "a row of its own", "entity or topic"]),
        ("ATOMIC", "evidence quote", ["exactly", "…", "Never reword"]),
        ("ATOMIC", "source", ["same label in every row"]),
        ("ATOMIC", "source date", ["ISO 8601", "as the source puts it", "NULL if unknown"]),
        ("COMPARATIVE", "entity", ["One canonical name", "all of its rows"]),
        ("COMPARATIVE", "dimension", ["One label", "all entities", "compared with each other"]),
        ("COMPARATIVE", "value", ["A number where the source has one", "words of the source", "NULL"]),
        ("COMPARATIVE", "unit", ["million, km, percent, USD", "empty for words"]),
        ("COMPARATIVE", "evidence quote", ["exactly"]),
        ("TEMPORAL", "event", ["5 to 15 words", "main entity or action"]),
        ("TEMPORAL", "position", ["from 1", "share a number"]),
        ("TEMPORAL", "resolved date", ["YYYY-MM-DD", "NULL", "common and fine"]),
        ("TEMPORAL", "date precision", ["day", "month (the day is unknown)", "year", "relative"]),
        ("TEMPORAL", "evidence quote", ["exactly"]),
    ],
)
async def test_the_rules_of_tables_9_to_11_are_there_and_shown(
    blueprint: str, column: str, said: list[str]
) -> None:
    shipped = load_blueprints()
    (found,) = (one for one in shipped if one.name == blueprint)
    (rules,) = (one.rules for one in found.columns if one.name == column)
    assert [part for part in said if part not in rules] == []
    model = ScriptedModel([Rule(table())])
    await EvidenceExtractor(model, shipped).extract("Which ferry?", [FERRY])
    shown = model.asked[0].messages[0].content
    assert (rules in shown) == (column in [one.name for one in found.cells])

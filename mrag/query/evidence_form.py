"""What the extractor is asked for: the columns of its table in words, and the JSON schema of its reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from mrag.models.prompt import filled, prompt_tree
from mrag.models.reply_schemas import closed_object
from mrag.query.blueprints import Blueprint
from mrag.schema import Operation
from mrag.settings import SaneReader

MAX_DERIVED = 3
MAX_CELL = 400

_TEXT = {"type": "string", "maxLength": MAX_CELL}


def guidance(blueprints: Sequence[Blueprint], reader: SaneReader) -> str:
    """What the prompt says about columns: the blueprints, or that there are none."""
    described = "\n".join(describe(blueprint, reader.derive) for blueprint in blueprints)
    return filled(_columns(blueprints)["guidance"], blueprints=described)


def example(blueprints: Sequence[Blueprint], label: str, reader: SaneReader) -> str:
    """The reply to the worked example, whose labels begin with `label`."""
    return filled(_columns(blueprints)[reader.quoting], label=label)


def _columns(blueprints: Sequence[Blueprint]) -> Mapping[str, str]:
    columns: Mapping[str, str] = prompt_tree("evidence-columns")["blueprints" if blueprints else "own"]
    return columns


def describe(blueprint: Blueprint, derive: bool) -> str:
    """A blueprint as the prompt shows it; quote and source are explained there once for all."""
    head = f"{blueprint.name} ({blueprint.structure}). Use when {blueprint.use_when}. Columns:"
    lines = [f"  - {c.name}: {c.definition}. {c.rules}".rstrip() for c in blueprint.cells]
    if blueprint.derives and derive:
        lines.append(f"  {prompt_tree('evidence-columns')['derived']}")
    return "\n".join([head, *lines])


def reply_schema(
    blueprints: Sequence[Blueprint], labels: Sequence[str], reader: SaneReader
) -> dict[str, Any]:
    """A table of a blueprint's columns, or of the model's own; sources are the labels shown.

    The name of the schema comes first: it binds what follows, which keeps a small model in the columns.
    """
    tables = [_table_schema({"const": blueprint.name}, blueprint, labels, reader) for blueprint in blueprints]
    own = _table_schema({"type": "string", "pattern": "^OTHER: [A-Za-z -]{1,40}$"}, None, labels, reader)
    return closed_object({"table": {"anyOf": [*tables, own]}})


def _table_schema(
    name: Mapping[str, Any], blueprint: Blueprint | None, labels: Sequence[str], reader: SaneReader
) -> dict[str, Any]:
    row = _row_schema([c.name for c in blueprint.cells] if blueprint else [], labels, reader)
    if blueprint is None:
        row["additionalProperties"] = _TEXT
    rows = {"type": "array", "maxItems": reader.max_rows, "items": row}
    table = closed_object({"schema": name, "rows": rows})
    if blueprint and blueprint.derives and reader.derive:
        # Not required, and after the rows: a model that knows no use for it never begins it.
        table["properties"]["derived"] = _derived_schema(reader.max_rows)
    return table


def _row_schema(columns: Sequence[str], labels: Sequence[str], reader: SaneReader) -> dict[str, Any]:
    properties: dict[str, Any] = {"quote": _TEXT} if reader.quoting == "copied" else {}
    properties |= dict.fromkeys(columns, _TEXT)
    properties["source"] = {"type": "string", "enum": list(labels)}
    return closed_object(properties)


def _derived_schema(max_rows: int) -> dict[str, Any]:
    numbers = {"type": "integer", "enum": list(range(1, max_rows + MAX_DERIVED))}
    computed = closed_object(
        {
            "operation": {"type": "string", "enum": list(get_args(Operation))},
            "from": {"type": "array", "minItems": 2, "maxItems": max(2, max_rows), "items": numbers},
            "value": {"type": "string", "maxLength": 40},
        }
    )
    return {"type": "array", "maxItems": MAX_DERIVED, "items": computed}

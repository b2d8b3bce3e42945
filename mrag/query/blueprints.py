"""SANE Tables 1 and 9 to 11: general schemas that show the extractor what evidence may look like."""

from __future__ import annotations

from importlib.abc import Traversable
from importlib.resources import files
from pathlib import Path

import yaml
from pydantic import Field, ValidationError, model_validator

from mrag.errors import SettingsError
from mrag.query.verify import ORDER_COLUMNS
from mrag.settings import Strict

GIVEN_COLUMNS = frozenset({"evidence quote", "quote", "source", "source date"})


class Column(Strict):
    """One column of a blueprint: what it holds and how it is filled.

    One that `orders` only says how rows follow each other, which no quote needs to say.
    """

    name: str = Field(min_length=1)
    definition: str
    rules: str = ""
    orders: bool = False

    @model_validator(mode="after")
    def _a_place_orders(self) -> Column:
        if self.orders and self.name not in ORDER_COLUMNS:
            raise ValueError(f"only {' and '.join(sorted(ORDER_COLUMNS))} can order rows, not {self.name}")
        return self


class Blueprint(Strict):
    """A schema, the structure that it gives to information, and the questions that it suits.

    `derives` says that its rows hold figures, from which others may be computed.
    """

    name: str = Field(min_length=1, max_length=40)
    structure: str
    use_when: str
    derives: bool = False
    columns: tuple[Column, ...] = Field(min_length=1)

    @property
    def cells(self) -> tuple[Column, ...]:
        """The columns that a row states: quote and source come with every row, the source's date by rule."""
        return tuple(column for column in self.columns if column.name not in GIVEN_COLUMNS)

    @model_validator(mode="after")
    def _columns_can_be_told_apart(self) -> Blueprint:
        names = [column.name for column in self.columns]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"column {twice} stands there twice")
        if "schema" in names:
            raise ValueError("schema is the table's name in a reply: call the column otherwise")
        if not self.cells:
            raise ValueError("quote and source come by themselves: give it a column that states something")
        return self


def load_blueprints(folder: Path | None = None) -> tuple[Blueprint, ...]:
    """The shipped blueprints and those of `folder`, in the order of their names.

    One of the folder takes the place of a shipped one of the same name. Raises SettingsError, for two of the
    folder with one name too.
    """
    found = _blueprints(files("mrag") / "data" / "blueprints")
    if folder:
        found |= _blueprints(folder)
    return tuple(found[name] for name in sorted(found))


def _blueprints(folder: Traversable) -> dict[str, Blueprint]:
    found: dict[str, Blueprint] = {}
    for file in _files(folder):
        blueprint = _read(file)
        if blueprint.name in found:
            raise SettingsError(f"{file} is a second blueprint {blueprint.name}: give it another name.")
        found[blueprint.name] = blueprint
    return found


def _files(folder: Traversable) -> list[Traversable]:
    try:
        entries = sorted(folder.iterdir(), key=lambda file: file.name)
    except OSError as error:
        raise SettingsError(f"Can't read the blueprints in {folder}: {error.strerror}.") from None
    return [file for file in entries if file.name.endswith((".yaml", ".yml"))]


def _read(file: Traversable) -> Blueprint:
    try:
        return Blueprint.model_validate(yaml.safe_load(file.read_text("utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValidationError) as error:
        raise SettingsError(f"{file} is no blueprint: {' '.join(str(error).split())}.") from None

"""What every section of the settings has in common."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError


class Strict(BaseModel):
    """A node of the tree: frozen, and closed to keys that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _default_kind(cls, tree: Any) -> Any:
        """A section of several kinds that does not name its own is of the kind that is the default there."""
        if not isinstance(tree, Mapping):
            return tree
        kinds = {
            name: {_told_by(field): getattr(field.default, _told_by(field))}
            for name, field in cls.model_fields.items()
            if isinstance(tree.get(name), Mapping) and hasattr(field.default, _told_by(field))
        }
        return {**tree, **{name: {**kind, **tree[name]} for name, kind in kinds.items()}}

    @model_validator(mode="before")
    @classmethod
    def _plain_values(cls, tree: Any) -> Any:
        for name, field in cls.model_fields.items():
            value = tree.get(name) if isinstance(tree, Mapping) else None
            if value is False and "off" in get_args(field.annotation):
                tree = {**tree, name: "off"}  # the word without quotes, as YAML reads it
            elif isinstance(value, bool) and field.annotation is not bool:
                raise _at(name, "true or false is no value of it; put a word such as yes in quotes")
            if isinstance(value, str | Path) and "\0" in str(value):
                raise _at(name, "a NUL character can't be part of it")
        return tree


def _told_by(field: FieldInfo) -> str:
    """The setting that tells the kind of a section."""
    return field.discriminator if isinstance(field.discriminator, str) else "name"


def _at(name: str, fault: str) -> PydanticCustomError:
    return PydanticCustomError("at_field", "{fault}", {"field": name, "fault": fault})

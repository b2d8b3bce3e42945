"""What the JSON schemas of replies have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def closed_object(properties: Mapping[str, Any]) -> dict[str, Any]:
    """An object with all of these properties, in their order, and no other."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }

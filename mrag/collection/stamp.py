"""What a collection is built with: what may join it, and what it is compared with when it is opened."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from mrag.schema import Searched

SCHEMA_VERSION = 4


@dataclass(frozen=True)
class Stamp:
    """What a collection is built with, and every append must be built with too.

    `builder` and `encoder` are fingerprints; `builder_settings` (JSON values) says readably what the first
    stands for. `analyzer` is `SparseSettings.language`. `searched` is all that a query may search.
    """

    builder: str
    encoder: str
    dimension: int
    analyzer: str
    k1: float
    b: float
    key_text: str
    searched: Searched = "keys"
    builder_settings: Mapping[str, Any] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION

    def differences(self, other: Stamp) -> tuple[str, ...]:
        """What differs, as `name: ours, not theirs`; of the builder its settings, where those tell."""
        names = [item.name for item in fields(self) if item.name not in ("builder", "builder_settings")]
        found = [(name, getattr(self, name), getattr(other, name)) for name in names]
        if self.builder != other.builder:
            found += self._settings(other) or [("builder", self.builder, other.builder)]
        return tuple(f"{name}: {ours!r}, not {theirs!r}" for name, ours, theirs in found if ours != theirs)

    def _settings(self, other: Stamp) -> list[tuple[str, Any, Any]]:
        ours, theirs = (json.loads(json.dumps(dict(stamp.builder_settings))) for stamp in (self, other))
        names = sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
        return [(f"builder.{name}", ours.get(name), theirs.get(name)) for name in names]

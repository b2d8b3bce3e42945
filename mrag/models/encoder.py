"""The encoder seam. The engine behind it comes in step with its settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from mrag.schema import Vectors

Kind = Literal["query", "passage"]


class Encoder(Protocol):
    """Texts to unit rows: float32, (n, dimension), in the order given."""

    @property
    def fingerprint(self) -> str:
        """Model, revision, dimension, normalisation and prefixes: what vectors can be compared."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    def encode(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """Raises ModelError for a vector that is not finite or has no length, naming the text."""

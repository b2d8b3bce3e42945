"""The tokenizer seam: lengths in the tokens of the model that reads."""

from __future__ import annotations

from typing import Protocol


class Tokenizer(Protocol):
    """Counts and places tokens of bare text (no special tokens added)."""

    def count(self, text: str) -> int:
        """Number of tokens of `text`."""

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Character offsets [start, end) of each token, in order."""

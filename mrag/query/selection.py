"""What the forms of selection have in common: what they are given, and what they give."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mrag.schema import Candidate, Usage
from mrag.settings import SaneReader


@dataclass(frozen=True)
class Ranking:
    """Candidates, the best first, each once, by their rank in the pool (from 1); and what was noticed."""

    ranks: tuple[int, ...]
    usage: Usage = field(default_factory=Usage)
    notes: tuple[str, ...] = ()


class Form(Protocol):
    """One way to ask which candidates to read."""

    async def rank(
        self, question: str, candidates: Sequence[Candidate], reader: SaneReader, timeout_s: float | None
    ) -> Ranking:
        """As many as the form chooses, or all of them.

        Raises ModelError, NoLogprobsError among them, and InputError (field `question`) for a question
        that leaves no room for a candidate.
        """


def countdown(timeout_s: float | None) -> Callable[[], float | None]:
    """Tells at each call what is left of these seconds; None of a time without end."""
    if timeout_s is None:
        return lambda: None
    clock = asyncio.get_running_loop().time
    end = clock() + timeout_s
    return lambda: end - clock()

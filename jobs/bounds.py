"""Promises of cost: each bound beside what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import typer
from rich.table import Table


@dataclass(frozen=True)
class Bound:
    """One promise: what was measured, and the most that it may be."""

    name: str
    measured: float
    limit: float
    unit: str
    detail: str

    @property
    def held(self) -> bool:
        """Whether it is within its limit."""
        return self.measured <= self.limit


def ratio(name: str, one_ms: float, other_ms: float, limit: float) -> Bound:
    """One side over the other."""
    return Bound(name, one_ms / other_ms, limit, "x", f"{one_ms:.2f} ms over {other_ms:.2f} ms")


def rows(bounds: Sequence[Bound]) -> list[dict[str, Any]]:
    """For programs."""
    return [{**asdict(bound), "held": bound.held} for bound in bounds]


def table(title: str, bounds: Sequence[Bound]) -> Table:
    """For a terminal."""
    shown = Table("bound", "measured", "at most", "held", "", title=title, title_justify="left")
    for bound in bounds:
        measured, limit = (f"{value:.2f} {bound.unit}" for value in (bound.measured, bound.limit))
        shown.add_row(bound.name, measured, limit, "yes" if bound.held else "NO", bound.detail)
    return shown


def tell(text: str) -> None:
    """One line on standard error: standard output may be JSON."""
    typer.echo(text, err=True)

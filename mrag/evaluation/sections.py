"""What a report consists of, whether a terminal or a browser shows it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mrag.collection import Histogram

SHOWN_CHARACTERS = 160
ABSENT = "–"


@dataclass(frozen=True)
class Plot:
    """A distribution of whole numbers as bars; the axis ends at `limit`, by default at the greatest one."""

    title: str
    x: str
    y: str
    histogram: Histogram
    limit: int | None = None

    @property
    def caption(self) -> str:
        """The title, and what the last bar holds where it holds more than the others."""
        if self.limit is None or self.histogram.greatest <= self.limit:
            return self.title
        return (
            f"{self.title}; the last bar holds all that are longer, up to {number(self.histogram.greatest)}"
        )


@dataclass(frozen=True)
class Section:
    """A table under a title; `about` says what is counted, and where the papers have the same."""

    title: str
    about: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    plots: tuple[Plot, ...] = ()

    @property
    def numeric(self) -> tuple[bool, ...]:
        """For each column whether it holds nothing but numbers, which are read from the right."""
        columns = zip(*self.rows, strict=True)
        found = tuple(all(map(_is_number, column)) for column in columns)
        return found or (False,) * len(self.head)


def _is_number(cell: str) -> bool:
    return cell == ABSENT or cell.lstrip("+-")[:1].isdigit()


def number(value: float) -> str:
    """Whole numbers in groups of three digits, others with two digits behind the point.

    >>> number(61632), number(2.5)
    ('61,632', '2.50')
    """
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def percent(share: float) -> str:
    """A share of one, in percent with two digits as in the paper's tables."""
    return f"{share:.2%}"


def share(part: float, whole: float) -> float:
    """The quotient, 0.0 of nothing."""
    return part / whole if whole else 0.0


def excerpt(text: str) -> str:
    """The beginning of a text on one line, without control characters: it may go to a terminal."""
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return words if len(words) <= SHOWN_CHARACTERS else words[: SHOWN_CHARACTERS - 1].rstrip() + "…"


def listed(numbers: Iterable[int]) -> str:
    """Numbers behind each other."""
    return ", ".join(map(str, numbers))

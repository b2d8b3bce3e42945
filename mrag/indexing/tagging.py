"""Source-unit tagging (M-RAG III-B): what one call reads, each unit behind its position identifier."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from mrag.models.prompt import indented, shortened
from mrag.schema import SourceUnit

Units = tuple[SourceUnit, ...]

_CONTEXT_CHARACTERS = 300
_HEADING_CHARACTERS = 120
_MOST_HEADINGS = 9


@dataclass(frozen=True)
class Window:
    """Consecutive units of one document, with the text around them where it is given as context."""

    title: str
    units: Units
    before: str = ""
    after: str = ""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The identifiers that a record may point to: the units' numbers in the whole document."""
        return tuple(unit.number for unit in self.units)

    @property
    def text(self) -> str:
        """All that a record of this window can be taken from."""
        return "\n".join((self.title, *(line for unit in self.units for line in (*unit.section, unit.text))))

    def around(self, pointers: Collection[int]) -> str:
        """What a value that points to these units may say: their text, title and sections, and the
        neighbours that were shown with them."""
        near = {number + step for number in pointers for step in (-1, 0, 1)}
        units = [unit for unit in self.units if unit.number in near]
        first, last = self.numbers[0], self.numbers[-1]
        return "\n".join(
            (
                self.title,
                *(line for unit in units if unit.number in pointers for line in unit.section),
                *(unit.text for unit in units),
                self.before if first in pointers else "",
                self.after if last in pointers else "",
            )
        )


def tagged(window: Window) -> str:
    """The units behind `[number]`, under their section, between the text around them.

    Only identifiers and section lines begin a line: what a document says is made inert, and its own
    line breaks are indented, so that no `[3]` of a document is taken for an identifier.
    """
    lines = [f"(before) {indented(window.before)}"] if window.before else []
    for section, units in groupby(window.units, key=lambda unit: unit.section):
        if path := section_path(window.title, section):
            lines.append(f"(section) {path}")
        lines += [f"[{unit.number}] {indented(unit.text)}" for unit in units]
    return "\n".join([*lines, f"(after) {indented(window.after)}"] if window.after else lines)


def section_path(title: str, section: Sequence[str]) -> str:
    """The headings above a unit on one line, without the one that is the document's title."""
    below = section[1:] if section and section[0] == title else section
    return " > ".join(map(heading, below[:_MOST_HEADINGS]))


def heading(text: str) -> str:
    """A title or heading: inert, on one line, of a length that leaves room for what follows."""
    return shortened(text, _HEADING_CHARACTERS)


# --------------------------------------------------------------------------- windows


def tile(units: Sequence[SourceUnit], limit: int | None, fits: Callable[[Units], bool]) -> Iterator[Units]:
    """Runs of consecutive units in order, of at most `limit` each, every one of which `fits`.

    A unit that does not fit alone is left out. Units that are not neighbours share no run.
    """
    for neighbours in _neighbours(units):
        step = limit or len(neighbours)
        for first in range(0, len(neighbours), step):
            yield from _halved(neighbours[first : first + step], fits)


def _neighbours(units: Sequence[SourceUnit]) -> Iterator[Units]:
    for _, run in groupby(enumerate(units), key=lambda pair: pair[1].number - pair[0]):
        yield tuple(unit for _, unit in run)


def _halved(units: Units, fits: Callable[[Units], bool]) -> Iterator[Units]:
    if fits(units):
        yield units
    elif len(units) > 1:
        yield from _halved(units[: len(units) // 2], fits)
        yield from _halved(units[len(units) // 2 :], fits)


def with_context(window: Window, units: Sequence[SourceUnit]) -> Window:
    """The same window between the end of the unit before it and the start of the one after it.

    `units` are those of the whole document.
    """
    first, last = window.numbers[0], window.numbers[-1]
    before = units[first - 2].text[-_CONTEXT_CHARACTERS:] if first > 1 else ""
    after = units[last].text[:_CONTEXT_CHARACTERS] if last < len(units) else ""
    return Window(window.title, window.units, before, after)

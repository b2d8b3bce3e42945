"""Sections as Markdown, for a terminal, a file, or a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mrag.evaluation.sections import Section


def markdown(sections: Iterable[Section]) -> str:
    """Each section as a title, a sentence and a table."""
    return "\n\n".join(map(_section, sections))


def _section(section: Section) -> str:
    rule = ["---", *("---:" if is_number else "---" for is_number in section.numeric[1:])]
    lines = (_line(section.head), _line(rule), *map(_line, section.rows))
    return "\n".join((f"### {_plain(section.title)}", "", _plain(section.about), "", *lines))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_plain, cells))} |"


def _plain(text: str) -> str:
    """A cell is one line, and no bar ends it."""
    return " ".join(text.split()).replace("|", "\\|")

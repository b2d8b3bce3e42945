"""An answer as one text whose footnotes say where it comes from, and such a text taken apart again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mrag.models.prompt import shortened
from mrag.query.outcome import abstained
from mrag.schema import Answer, EvidenceRow, EvidenceTable, Source

QUOTE_CHARACTERS = 240
TITLE_CHARACTERS = 120
LINE_CHARACTERS = 1000  # more than a footnote has; the pattern tries a long line at every place

# What would become a link or a picture where the text is shown as Markdown; `shortened` has opened tags.
_ACTIVE = re.compile(r"[\[\]]")
_LINE = re.compile(r"- \[\d+\] (?P<title>.*?) \((?:unit [\d, ]+?)?(?:(?:, )?page [\d, ]+)?\)(?:: “.*”)?")
_MARKS = re.compile(r"(?: \[\d+\])+\Z")


@dataclass(frozen=True)
class Footnote:
    """A place that the answer rests on; its mark is `content[start:end]`, `quote` is empty without a row."""

    source: Source
    quote: str
    start: int
    end: int

    @property
    def title(self) -> str:
        """What the document is called."""
        return self.source.title or self.source.document_id


@dataclass(frozen=True)
class Footnoted:
    """`content` is the answer's text, marks such as `[1]`, and a list of what they stand for."""

    content: str
    notes: tuple[Footnote, ...]


def footnoted(answer: Answer) -> Footnoted:
    """With a footnote for each row that the answer cites, else for each of its sources.

    An answer without text says its notes instead. One that says that it has none has no footnotes.
    """
    if abstained(answer):
        return Footnoted(answer.text or " ".join(answer.notes), ())
    content, notes = answer.text, []
    for number, (source, quote) in enumerate(dict.fromkeys(_places(answer)), start=1):
        mark = f" [{number}]"
        notes.append(Footnote(source, quote, len(content) + 1, len(content) + len(mark)))
        content += mark
    lines = (_line(number, note) for number, note in enumerate(notes, start=1))
    return Footnoted("\n".join([content, "", *lines]) if notes else content, tuple(notes))


def without_footnotes(content: str) -> tuple[str, tuple[str, ...]]:
    """The text of an answer that was footnoted, and the titles that its footnotes named, each once.

    A text without footnotes is returned as it is.
    """
    text, _, block = content.rpartition("\n\n- [1] ")
    lines = f"- [1] {block}".split("\n")
    found = [_LINE.fullmatch(line) if len(line) <= LINE_CHARACTERS else None for line in lines]
    titles = [match["title"] for match in found if match]
    if not text or len(titles) < len(found):
        return content, ()
    return _MARKS.sub("", text), tuple(dict.fromkeys(title.replace("\\", "") for title in titles))


def _places(answer: Answer) -> Iterator[tuple[Source, str]]:
    cited = list(_base(answer.evidence, answer.citations)) if answer.evidence else []
    for row in cited:
        if row.source:
            yield row.source, row.quote
    if not cited:
        for source in answer.sources:
            yield source, ""


def _base(table: EvidenceTable, numbers: Iterable[int]) -> Iterator[EvidenceRow]:
    """The rows that quote something, in place of those that were computed from them."""
    for number in numbers:
        row = table.rows[number - 1]
        if row.derivation:
            yield from _base(table, (n for n in row.derivation.rows if n < number))
        else:
            yield row


def _line(number: int, note: Footnote) -> str:
    place = f"- [{number}] {_shown(note.title, TITLE_CHARACTERS)} ({note.source.place})"
    return f"{place}: “{_shown(note.quote, QUOTE_CHARACTERS)}”" if note.quote else place


def _shown(text: str, characters: int) -> str:
    return _ACTIVE.sub(r"\\\g<0>", shortened(text, characters))

"""What the extractor is shown: source units, or their sentences, under labels that no document can forge."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, product
from string import ascii_uppercase

from mrag.documents.sentences import sentence_spans
from mrag.models.prompt import indented
from mrag.query.about import about
from mrag.query.verify import Cited
from mrag.schema import Candidate


@dataclass(frozen=True)
class Passage:
    """A labelled text, whole or one sentence of it, and the unit that it is, or is taken from."""

    text: str
    place: Cited


@dataclass(frozen=True)
class Sheet:
    """`text` as it stands in the prompt, how each of its labels begins, and what they mean."""

    text: str
    prefix: str
    passages: Mapping[str, Passage]


def cite(candidates: Iterable[Candidate]) -> list[Cited]:
    """The units of the candidates in rank order, one that several share only once."""
    units: dict[tuple[str, int], Cited] = {}
    for candidate in candidates:
        for unit in candidate.units:
            units.setdefault((unit.document_id, unit.number), Cited(unit, candidate.document))
    return list(units.values())


def unit_passages(candidates: Iterable[Candidate]) -> list[Passage]:
    """The units that `cite` lists, as they are."""
    return [Passage(place.unit.text, place) for place in cite(candidates)]


def value_passages(candidates: Iterable[Candidate]) -> list[Passage]:
    """The values of the candidates' records in rank order, a repeated one once, each at its first unit."""
    shown: dict[tuple[str, str], Passage] = {}
    for candidate in candidates:
        for record in candidate.records:
            for unit in candidate.units:
                if unit.number in record.pointers:
                    place = Cited(unit, candidate.document)
                    shown.setdefault((record.document_id, record.value), Passage(record.value, place))
                    break
    return list(shown.values())


def lay_out(ranked: Sequence[Passage], by_sentence: bool, question: str = "") -> Sheet:
    """The sheet of texts given in rank order: documents by their best text, each in its own order.

    No text and no question names a label: what was asked before may have been answered from a document.
    Whatever comes from a document stands behind a label or a heading, on lines that begin with neither.
    """
    documents = list(dict.fromkeys(text.place.document.id for text in ranked))
    ordered = sorted(
        ranked, key=lambda text: (documents.index(text.place.document.id), text.place.unit.number)
    )
    prefix = free_prefix([question, *(whole.text + _heading(whole.place) for whole in ordered)])
    lines: list[str] = []
    passages: dict[str, Passage] = {}
    heading = ""
    for whole in ordered:
        if heading != (heading := _heading(whole.place)):
            lines.append(heading)
        for text in _passages(whole.text, by_sentence):
            label = f"{prefix}{len(passages) + 1}"
            passages[label] = Passage(text, whole.place)
            lines.append(f"[{label}] {indented(text)}")
    return Sheet("\n".join(lines), prefix, passages)


def free_prefix(texts: Iterable[str]) -> str:
    """A letter (or more) with which no label of the texts begins: they can't speak of each other's."""
    taken: set[str] = set(re.findall(r"([A-Z]+)\d", " ".join(texts)))
    longer = ("".join(letters) for n in count(1) for letters in product(ascii_uppercase, repeat=n))
    return next(prefix for prefix in chain("S", longer) if prefix not in taken)


def _passages(text: str, by_sentence: bool) -> Iterator[str]:
    if not by_sentence:
        yield text
        return
    for start, end in sentence_spans(text):
        yield text[start:end]


def _heading(place: Cited) -> str:
    return "From: " + about(place.document, place.unit.section, " > ")

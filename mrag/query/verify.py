"""Promise 6, without a model: an evidence row holds only if its quote stands in the unit it names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mrag.documents.facts import ordinary_words, supports
from mrag.documents.quantities import SUFFIXES, folded, numbers, placed_numbers, scale_words
from mrag.documents.scripts import unspoken
from mrag.documents.sentences import sentence_spans
from mrag.documents.statements import contradicts, negates
from mrag.documents.words import TOKEN, bare, tokens
from mrag.query.about import metadata, title_and_section
from mrag.schema import DocumentInfo, EvidenceRow, Source, SourceUnit, Verdict

SUBJECT_COLUMNS = frozenset({"entity", "dimension", "source date"})
_ORDERING = {
    "position": re.compile(r"\d{1,3}(?:st|nd|rd|th)?|first|second|third|fourth|fifth|last", re.IGNORECASE),
    "date precision": re.compile(r"day|month|year|relative", re.IGNORECASE),
}
ORDER_COLUMNS = frozenset(_ORDERING)
MIN_WORDS = 3

Span = tuple[int, int]

_STEM = 5
_INDEFINITE = frozenset(
    ["anybody", "anyone", "everybody", "everyone", "everything", "nobody", "nothing", "somebody", "someone"]
)
_VERDICTS = {"yes": "", "true": "", "no": "not", "false": "not"}
_ELISION = re.compile(r"\s*[\[(]?\s*(?:\.{3,}|…)\s*[\])]?\s*")
_SINGLE = "'‘’‚‛`´"
_DOUBLE = '"“”„‟«»'


@dataclass(frozen=True)
class Cited:
    """A source unit that the model was shown, with its document."""

    unit: SourceUnit
    document: DocumentInfo


@dataclass(frozen=True)
class Draft:
    """A row as the model wrote it: `unit` is the one it names, None where there is no such unit.

    `ordering` are those of its columns that say how rows follow each other, which no quote needs to say.
    `copied` says that the quote is the model's own, else it is the text of the label that it named.
    """

    cells: Mapping[str, str]
    quote: str
    unit: Cited | None
    ordering: frozenset[str] = frozenset()
    copied: bool = False


def verify(draft: Draft, shown: Sequence[Cited]) -> EvidenceRow:
    """The row with its verdict; of a verified one, quote and source are the unit's own.

    A quote that stands in another unit of the same document is given to that unit.

    Deviation: a row that only names a label may have a cell that is itself a quote: small models write one
    sentence down and name another. Its unit is then the one of that document in which it stands.

    Numbers, dates and names of every cell must stand in
    the quote; those that say what the row is about (the entity, the dimension, the date of the source)
    may stand in unit, section, title or metadata as well, as far as prompts show these. In scripts without
    capitals every word must. No cell denies what the quote's sentence says, or the reverse, or swaps who did
    it to whom; a bare yes or no is read with what it is said of.
    """
    for words, place in _readings(draft, shown):
        spans = _found(words, place.unit.text)
        if spans and _supported(draft, spans, place):
            source = Source.of(place.document, [place.unit])
            return EvidenceRow(draft.cells, _taken(spans, place.unit.text), Verdict.VERIFIED, source)
    return EvidenceRow(draft.cells, draft.quote, Verdict.UNVERIFIED)


def _readings(draft: Draft, shown: Sequence[Cited]) -> Iterator[tuple[str, Cited]]:
    """What may be the row's quote, and the units of its document where it may stand, the likeliest first."""
    named = draft.unit
    places = sorted(
        (place for place in shown if _same_document(place, named)), key=lambda place: place != named
    )
    yield from ((draft.quote, place) for place in places)
    for words in () if draft.copied else draft.cells.values():
        if len(tokens(words)) >= MIN_WORDS:
            yield from ((words, place) for place in places)


def _same_document(place: Cited, named: Cited | None) -> bool:
    return named is not None and place.document.id == named.document.id


def _supported(draft: Draft, spans: Sequence[Span], place: Cited) -> bool:
    quote, sentence = _taken(spans, place.unit.text), _sentences(spans, place.unit.text)
    ordinary = _ordinary(draft, place.unit.text)
    around = [
        quote,
        place.unit.text,
        *title_and_section(place.document, place.unit.section),
        *(value for _, value in metadata(place.document)),
    ]
    subject = "; ".join(cell for column, cell in draft.cells.items() if column in SUBJECT_COLUMNS)
    if not _holds(". ".join(around), subject, ordinary):
        return False
    return not any(contradicts(sentence, claim) for claim in _verdicts(draft)) and all(
        any(_holds(quote, reading, ordinary) and not contradicts(sentence, reading) for reading in readings)
        for readings in _claims(draft)
    )


def _verdicts(draft: Draft) -> Iterator[str]:
    """What a row affirms or denies beside its cells' own claims.

    That is a bare yes or no of its dimension, or of the column that it stands in; and a subject that denies
    something, `does not carry mail`.
    """
    for column, cell in draft.cells.items():
        verdict = _VERDICTS.get(cell.casefold().strip(" ."))
        if verdict is not None:
            of = draft.cells.get("dimension", column) if column == "value" else column
            yield f"{verdict} {of}".strip()
        elif column in SUBJECT_COLUMNS and any(negates(bare(word)) for word in tokens(cell)):
            yield cell


def _ordinary(draft: Draft, text: str) -> frozenset[str]:
    """Words whose capital at the start of a sentence makes no name: the text has their like without one."""
    ordinary = ordinary_words(text) | _INDEFINITE
    stems = {word[:_STEM] for word in ordinary}
    words = {bare(word) for cell in draft.cells.values() for word in tokens(cell)}
    return ordinary | {word for word in words if word[:_STEM] in stems}


def _holds(quote: str, claim: str, ordinary: frozenset[str]) -> bool:
    return supports(quote, claim, ordinary) and not unspoken(quote, claim)


def _claims(draft: Draft) -> Iterator[list[str]]:
    """What the quote itself must say, cell by cell; one of the readings where a cell has several."""
    for column, cell in draft.cells.items():
        if column == "value":
            yield _quantity(cell, draft.cells.get("unit", ""))
        elif column == "unit" and "value" not in draft.cells:
            yield _quantity("", cell)
        elif column != "unit" and column not in SUBJECT_COLUMNS and not _orders(draft, column):
            yield [cell]


def _quantity(value: str, unit: str) -> list[str]:
    """A value with the scale and the numbers of its unit: "5" in "million" is not the 5 of a quote.

    Of a unit no more is claimed, since its standard form (USD) is seldom that of the quote ($). A bare `m`
    may be metres or millions.
    """
    scales = scale_words(unit)
    others = [] if scales else [f"{number:f}" for number in sorted(numbers(unit))]
    readings = ["; ".join([" ".join([value, *scales]), *others])]
    if value[-1:].isdigit() and unit.casefold() in SUFFIXES:
        readings.append(value + unit)
    return readings


def _orders(draft: Draft, column: str) -> bool:
    return column in draft.ordering and only_orders(column, draft.cells[column])


def only_orders(column: str, cell: str) -> bool:
    """Whether a cell can be such that no quote needs to say it: no number of an answer rests on it."""
    return column in ORDER_COLUMNS and bool(_ORDERING[column].fullmatch(cell))


def quoted(quote: str, text: str) -> str | None:
    """The words of `text` that `quote` gives, as `text` has them; None where it does not give them.

    White space and the kind of quotation marks may differ. An elision may stand between fragments of
    at least `MIN_WORDS` words that follow each other in `text`. A quote of fewer words must be a whole
    sentence or line: a bare number says nothing. No word or number may be cut.
    """
    spans = _found(quote, text)
    return _taken(spans, text) if spans else None


def _found(quote: str, text: str) -> list[Span] | None:
    for fragments in _fragments(quote):
        spans = _spans(fragments, text)
        if spans and (len(tokens(" ".join(fragments))) >= MIN_WORDS or _whole(spans[0], text)):
            return spans
    return None


def _taken(spans: Iterable[Span], text: str) -> str:
    return " … ".join(text[start:end] for start, end in spans)


def _sentences(spans: Sequence[Span], text: str) -> str:
    """The sentences that the spans are taken from: what a fragment leaves out may deny what it says."""
    return " ".join(
        text[first:last]
        for first, last in sentence_spans(text)
        if any(start < last and first < end for start, end in spans)
    )


def _fragments(quote: str) -> Iterator[list[str]]:
    """The quote as it is, without marks around it, and split at its elisions."""
    whole = quote.strip()
    inner = whole.strip(_SINGLE + _DOUBLE).strip()
    yield from ([reading] for reading in dict.fromkeys((whole, inner)) if reading)
    fragments = [fragment for fragment in _ELISION.split(inner) if fragment]
    if fragments != [inner] and all(len(tokens(fragment)) >= MIN_WORDS for fragment in fragments):
        yield fragments


def _whole(span: Span, text: str) -> bool:
    """Whether all words of a sentence or of a line stand in the span, and no others."""
    start, end = span
    lines = ((match.start(), match.end()) for match in re.finditer(r".+", text))
    return any(
        tokens(text[start:end]) == tokens(text[first:last])
        for first, last in (*sentence_spans(text), *lines)
        if first <= start and end <= last
    )


def _spans(fragments: Sequence[str], text: str) -> list[Span] | None:
    """Where the fragments stand in `text`, one after the other."""
    inside = _inside(text)
    spans: list[Span] = []
    after = 0
    for fragment in fragments:
        pattern = re.compile(_pattern(fragment))
        while (match := pattern.search(text, after)) and not inside.isdisjoint(match.span()):
            after = match.start() + 1
        if match is None:
            return None
        spans.append(match.span())
        after = match.end()
    return spans


def _inside(text: str) -> set[int]:
    """The offsets at which a span would cut a word or a number, its sign and its scale included."""
    spans = [match.span() for match in TOKEN.finditer(folded(text))]
    spans += [(start, end) for start, end, _ in placed_numbers(text)]
    return {i for start, end in spans for i in range(start + 1, end)}


def _pattern(fragment: str) -> str:
    """A regular expression for the fragment's characters under any white space and quotation marks."""
    words = re.sub(r"([<\[])\s+", r"\1", fragment).split()
    return r"\s+".join("".join(map(_character, word)) for word in words)


def _character(c: str) -> str:
    for marks in (_SINGLE, _DOUBLE):
        if c in marks:
            return f"[{re.escape(marks)}]"
    # Prompts show `<x` as `< x` and `[INST]` as `[ INST]` (see `inert`), and a model may copy either.
    return rf"{re.escape(c)}\s*" if c in "<[" else re.escape(c)

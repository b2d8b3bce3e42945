"""M-RAG eq. 13: the context is the longest run of ranked texts that stays within the budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mrag.models.prompt import inert
from mrag.query.fitting import cut_at_sentence
from mrag.schema import Candidate, Context, Source

SEPARATOR = "\n\n"
Order = Literal["similarity", "position"]


@dataclass(frozen=True)
class Piece:
    """A text of the context: a record's value or a source unit, with the place of the units behind it."""

    text: str
    source: Source


def values(candidates: Iterable[Candidate]) -> Iterator[Piece]:
    """What eq. 13 appends: the values, never the keys, in rank order; a repeated value once.

    Deviation: the values of records with the same source units follow each other, because a pool is
    a sequence of candidates; the paper scans single records.
    """
    seen = set()
    for candidate in candidates:
        for record in candidate.records:
            units = [unit for unit in candidate.units if unit.number in record.pointers]
            piece = Piece(inert(record.value), Source.of(candidate.document, units))
            if (candidate.document.id, piece.text) not in seen:
                seen.add((candidate.document.id, piece.text))
                yield piece


def raw_units(candidates: Iterable[Candidate]) -> Iterator[Piece]:
    """The source units in rank order; one that several candidates share appears once."""
    seen = set()
    for candidate in candidates:
        for unit in candidate.units:
            if (unit.document_id, unit.number) not in seen:
                seen.add((unit.document_id, unit.number))
                yield Piece(inert(unit.text), Source.of(candidate.document, [unit]))


def assemble(
    pieces: Iterable[Piece], budget_tokens: int, count: Callable[[str], int], order: Order = "similarity"
) -> tuple[Context, bool]:
    """The context, and whether it holds every piece.

    `count` gives the generator's tokens; the text is counted as assembled, separators included. The
    scan ends at the first piece that does not fit. The very first is then cut at a sentence's end.
    """
    chosen: list[Piece] = []
    for piece in pieces:
        if count(_joined([*chosen, piece], order)) > budget_tokens:
            if not chosen:
                chosen = [replace(piece, text=cut_at_sentence(piece.text, budget_tokens, count))]
                return _context(chosen, count, order, cut=True), False
            return _context(chosen, count, order), False
        chosen.append(piece)
    return _context(chosen, count, order), True


def _context(
    pieces: Sequence[Piece], count: Callable[[str], int], order: Order, cut: bool = False
) -> Context:
    text = _joined(pieces, order)
    kept = [piece for piece in pieces if piece.text]
    return Context(text, count(text), merged(piece.source for piece in kept), cut)


def _joined(pieces: Sequence[Piece], order: Order) -> str:
    return SEPARATOR.join(piece.text for piece in (by_position(pieces) if order == "position" else pieces))


def by_position(pieces: Sequence[Piece]) -> list[Piece]:
    """Pieces as their documents have them; documents by their best piece, which comes first."""
    documents = list(dict.fromkeys(piece.source.document_id for piece in pieces))
    return sorted(
        pieces, key=lambda piece: (documents.index(piece.source.document_id), piece.source.units[:1])
    )


def merged(sources: Iterable[Source]) -> tuple[Source, ...]:
    """One source a document, in the order of first appearance, its units and pages ascending."""
    found: dict[str, Source] = {}
    for source in sources:
        known = found.setdefault(source.document_id, source)
        found[source.document_id] = replace(
            known,
            units=tuple(sorted({*known.units, *source.units})),
            pages=tuple(sorted({*known.pages, *source.pages})),
        )
    return tuple(found.values())

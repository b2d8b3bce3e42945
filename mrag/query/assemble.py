"""M-RAG eq. 13: the context is the longest run of ranked texts that stays within the budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Literal

from mrag.models.prompt import inert, unasking
from mrag.query.fitting import cut_at_sentence
from mrag.schema import Candidate, Context, Source
from mrag.settings import PlainReader

SEPARATOR = "\n\n"
HEAD = 32  # characters
MIN_SHARED = 4  # words; fewer may be a turn of speech
Order = Literal["similarity", "position"]


@dataclass(frozen=True)
class Piece:
    """A text of the context: a record's value or a source unit, with the place of the units behind it.

    `units` are the texts of those units, for a value that was made of them.
    """

    text: str
    source: Source
    units: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rules:
    """How ranked pieces become a context; the settings of `PlainReader` say what each means.

    Deviation: `policy` skip, `overflow` cut and `deduplicate` leave eq. 13, under which the first value that
    does not fit ends the context, even an empty one, and a value is paid for as often as it is found.
    """

    order: Order = "similarity"
    policy: Literal["stop", "skip"] = "stop"
    overflow: Literal["cut", "strict"] = "cut"
    deduplicate: bool = False

    @classmethod
    def of(cls, reader: PlainReader) -> Rules:
        """Those of a reader of values."""
        return cls(reader.order, reader.policy, reader.overflow, reader.deduplicate)


IN_RANK_ORDER = Rules()


def values(candidates: Iterable[Candidate]) -> Iterator[Piece]:
    """What eq. 13 appends: the values, never the keys, in the order of the records' own ranks.

    They end where a rank is missing: that record found no place in the pool, though later ones did.
    """
    ranked: list[tuple[int, Piece]] = []
    for candidate in candidates:
        texts = tuple(_shown(unit.text) for unit in candidate.units)
        source = Source.of(candidate.document, candidate.units)
        for rank, record in zip(candidate.ranks, candidate.records, strict=True):
            ranked.append((rank, Piece(_shown(record.value), source, texts)))
    last = 0
    for rank, piece in sorted(ranked, key=itemgetter(0)):
        if rank > last + 1:
            break
        last = rank
        yield piece


def raw_units(candidates: Iterable[Candidate]) -> Iterator[Piece]:
    """The source units in rank order; one that several candidates share appears once."""
    seen = set()
    for candidate in candidates:
        for unit in candidate.units:
            if (unit.document_id, unit.number) not in seen:
                seen.add((unit.document_id, unit.number))
                yield Piece(_shown(unit.text), Source.of(candidate.document, [unit]))


def _shown(text: str) -> str:
    return unasking(inert(text))


def assemble(
    pieces: Iterable[Piece],
    budget_tokens: int,
    count: Callable[[str], int],
    rules: Rules = IN_RANK_ORDER,
) -> tuple[Context, bool]:
    """The context, and whether it holds every piece, those apart that it says already.

    `count` gives the generator's tokens; the text is counted as assembled, separators included. The
    scan ends at the first piece that does not fit, or passes it over. Where none fits, the first of them is
    cut at a sentence's end, or the context is empty.
    """
    chosen: list[Piece] = []
    too_long: list[Piece] = []
    for piece in pieces:
        if rules.deduplicate:
            known = [other for other in chosen if other.source.document_id == piece.source.document_id]
            if _says(known, piece):
                continue
        if count(_joined([*chosen, piece], rules)) <= budget_tokens:
            chosen.append(piece)
            continue
        too_long.append(piece)
        if rules.policy == "stop":
            break
    if too_long and not chosen and rules.overflow == "cut":
        [first, *_] = too_long
        first = replace(first, text=cut_at_sentence(first.text, budget_tokens, count))
        return _context([first], count, rules, cut=True), False
    return _context(chosen, count, rules), not too_long


def _says(known: Sequence[Piece], piece: Piece) -> bool:
    """Whether a piece adds nothing to those known of its document.

    Its text stands in one of them, or all units that it was made of stand there in full.
    """
    if any(_spaced(piece.text) in _spaced(other.text) for other in known):
        return True
    return bool(piece.units) and all(
        any(number in other.source.units and _spaced(unit) in _spaced(other.text) for other in known)
        for number, unit in zip(piece.source.units, piece.units, strict=True)
    )


def _told_once(pieces: Iterable[Piece], order: Order) -> Iterator[Piece]:
    """The pieces as they stand, each without the words that the one before it, of its document, says already.

    Only neighbours share words: what is left of a piece would be read as what follows on another. By
    similarity the later of a document's parts may come first, and the earlier then loses its end.
    """
    before: Piece | None = None
    for piece in pieces:
        if before and before.source.document_id == piece.source.document_id:
            text = piece.text if order == "position" else _before(piece.text, before.text)
            piece = replace(piece, text=_after(before.text, text))
        before = piece
        yield piece


def _after(said: str, text: str) -> str:
    """What `text` goes on with, after the words that `said` ends with."""
    n = _shared(said.split(), text.split())
    return text.split(maxsplit=n)[-1] if n else text


def _before(text: str, said: str) -> str:
    """What `text` says before the words that `said` begins with."""
    n = _shared(text.split(), said.split())
    return text.rsplit(maxsplit=n)[0] if n else text


def _shared(first: Sequence[str], second: Sequence[str]) -> int:
    """How many words the one ends and the other begins with; none where it is fewer than MIN_SHARED."""
    longest = min(len(first), len(second)) - 1
    return next((n for n in range(longest, MIN_SHARED - 1, -1) if first[-n:] == second[:n]), 0)


def _spaced(text: str) -> str:
    """Words between single blanks, so that none is found within another."""
    return f" {' '.join(text.split())} "


def _context(
    pieces: Sequence[Piece], count: Callable[[str], int], rules: Rules, cut: bool = False
) -> Context:
    text = _joined(pieces, rules)
    kept = [piece for piece in pieces if piece.text]
    return Context(text, count(text), merged(piece.source for piece in kept), cut)


def _joined(pieces: Sequence[Piece], rules: Rules) -> str:
    ordered = by_position(pieces) if rules.order == "position" else pieces
    told = _told_once(ordered, rules.order) if rules.deduplicate else ordered
    return SEPARATOR.join(unasking(piece.text) for piece in told)  # what is left of one may begin anew


def by_position(pieces: Sequence[Piece]) -> list[Piece]:
    """Pieces as their documents have them; documents by their best piece, which comes first."""
    documents = list(dict.fromkeys(piece.source.document_id for piece in pieces))
    return sorted(pieces, key=lambda piece: (documents.index(piece.source.document_id), *_place(piece)))


def _place(piece: Piece) -> tuple[int, int, int]:
    """First and last unit, and where in the first the text begins: a long unit may hold several chunks."""
    units = piece.source.units or (0,)
    within = piece.units[0].find(piece.text[:HEAD]) if piece.units else 0
    return units[0], units[-1], within


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

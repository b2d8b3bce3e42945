"""Rankings of several legs become one, by reciprocal rank; records become candidates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from mrag.schema import Candidate, Hit, Leg, Stored


@dataclass(frozen=True)
class Ranked:
    """A record after fusion: its fused score, its score in each leg that found it, its best key.

    That is the key of the leg that ranks the record best and knows which key matched, else the first.
    """

    record_id: str
    score: float
    scores: Mapping[Leg, float]
    key: int


def fuse(hits: Mapping[Leg, Sequence[Hit]], constant: int) -> tuple[Ranked, ...]:
    """Reciprocal rank fusion, best first: the sum over the legs of 1 / (constant + rank), ranks from 1.

    Neither the order of the legs nor that of equal hits matters: ties go by record id.
    """
    places: dict[str, dict[Leg, tuple[int, Hit]]] = {}
    for leg in sorted(hits):
        for rank, hit in enumerate(sorted(hits[leg], key=lambda hit: (-hit.score, hit.record_id)), 1):
            places.setdefault(hit.record_id, {})[leg] = (rank, hit)
    ranked = (_ranked(record_id, found, constant) for record_id, found in places.items())
    return tuple(sorted(ranked, key=lambda record: (-record.score, record.record_id)))


def _ranked(record_id: str, found: Mapping[Leg, tuple[int, Hit]], constant: int) -> Ranked:
    by_rank = sorted(found.values(), key=lambda place: place[0])
    return Ranked(
        record_id,
        score=fsum(1 / (constant + rank) for rank, _ in found.values()),
        scores={leg: hit.score for leg, (_, hit) in found.items()},
        key=next((hit.key for _, hit in by_rank if hit.key is not None), 0),
    )


class Grouping:
    """Collects records, best first, into at most `w` candidates: one for each set of source units."""

    def __init__(self, w: int) -> None:
        self._w = w
        self._groups: dict[tuple[str, tuple[int, ...]], list[tuple[Ranked, Stored]]] = {}

    @property
    def full(self) -> bool:
        """Whether a record with other units would be turned away."""
        return len(self._groups) >= self._w

    def add(self, found: Iterable[tuple[Ranked, Stored]]) -> None:
        """Takes records that rank behind those added before."""
        for ranked, stored in found:
            place = (stored.record.document_id, stored.record.pointers)
            if place in self._groups or not self.full:
                self._groups.setdefault(place, []).append((ranked, stored))

    def candidates(self) -> tuple[Candidate, ...]:
        """The candidates so far, best first."""
        return tuple(_candidate(members) for members in self._groups.values())


def _candidate(members: Sequence[tuple[Ranked, Stored]]) -> Candidate:
    best, stored = members[0]
    legs = sorted({leg for ranked, _ in members for leg in ranked.scores})
    return Candidate(
        document=stored.document,
        units=stored.units,
        records=tuple(member.record for _, member in members),
        key=stored.record.keys[best.key],
        score=best.score,
        scores={
            leg: max(ranked.scores[leg] for ranked, _ in members if leg in ranked.scores) for leg in legs
        },
    )

"""Rankings of several legs, and of several queries, become one; records become candidates.

Deviation: M-RAG searches by one leg at a time; here both are fused, and one alone is a setting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from mrag.schema import Candidate, Hit, Leg, Stored
from mrag.settings import RetrievalSettings


@dataclass(frozen=True)
class Ranked:
    """A record after fusion: its fused score, its score in each leg that found it, its best key.

    That is the key of the leg that ranks the record best and knows which key matched, else the first.
    """

    record_id: str
    score: float
    scores: Mapping[Leg, float]
    key: int


@dataclass(frozen=True)
class _Place:
    rank: int
    points: float
    hit: Hit


def fuse(hits: Mapping[Leg, Sequence[Hit]], settings: RetrievalSettings) -> tuple[Ranked, ...]:
    """One ranking of all records that a leg found, best first: the sum of their weighted points.

    Points are by `rank` 1 / (constant + rank), ranks from 1. By `scores` they are the leg's own, from 0 for
    the worst that it found to 1 for the best (1 for all where they are equal); a record that the leg did not
    find has none. Neither the order of the legs nor that of equal hits matters: ties go by record id.
    """
    places: dict[str, dict[Leg, _Place]] = {}
    for leg in sorted(hits):
        ranking = sorted(hits[leg], key=lambda hit: (-hit.score, hit.record_id))
        weight = getattr(settings.leg_weights, leg)
        for rank, (hit, points) in enumerate(zip(ranking, _points(ranking, settings), strict=True), 1):
            places.setdefault(hit.record_id, {})[leg] = _Place(rank, weight * points, hit)
    return _sorted(_ranked(record_id, found) for record_id, found in places.items())


def _points(ranking: Sequence[Hit], settings: RetrievalSettings) -> list[float]:
    if settings.fusion == "rank":
        return [1 / (settings.rank_constant + rank) for rank in range(1, len(ranking) + 1)]
    if not ranking:
        return []
    best, worst = ranking[0].score, ranking[-1].score
    return [(hit.score - worst) / (best - worst) if best > worst else 1.0 for hit in ranking]


def _ranked(record_id: str, found: Mapping[Leg, _Place]) -> Ranked:
    by_rank = sorted(found.values(), key=lambda place: place.rank)
    return Ranked(
        record_id,
        score=fsum(place.points for place in found.values()),
        scores={leg: place.hit.score for leg, place in found.items()},
        key=next((place.hit.key for place in by_rank if place.hit.key is not None), 0),
    )


def _sorted(records: Iterable[Ranked]) -> tuple[Ranked, ...]:
    return tuple(sorted(records, key=lambda record: (-record.score, record.record_id)))


def united(rankings: Sequence[Sequence[Ranked]], constant: int) -> tuple[Ranked, ...]:
    """The rankings of several queries as one, by reciprocal rank; one alone stays as it is.

    A record's score of a leg is its best. The order of the rankings does not matter.
    """
    if len(rankings) == 1:
        return tuple(rankings[0])
    places: dict[str, list[tuple[int, Ranked]]] = {}
    for ranking in rankings:
        for rank, record in enumerate(ranking, 1):
            places.setdefault(record.record_id, []).append((rank, record))
    return _sorted(_united(record_id, found, constant) for record_id, found in places.items())


def _united(record_id: str, found: Sequence[tuple[int, Ranked]], constant: int) -> Ranked:
    legs = sorted({leg for _, record in found for leg in record.scores})
    return Ranked(
        record_id,
        score=fsum(1 / (constant + rank) for rank, _ in found),
        scores={leg: _best_score(leg, (record for _, record in found)) for leg in legs},
        key=min((rank, record.key) for rank, record in found)[1],
    )


def _best_score(leg: Leg, records: Iterable[Ranked]) -> float:
    return max(record.scores[leg] for record in records if leg in record.scores)


@dataclass(frozen=True)
class _Member:
    rank: int
    ranked: Ranked
    stored: Stored


class Grouping:
    """Collects records, best first, into at most `w` candidates: one for each set of source units."""

    def __init__(self, w: int) -> None:
        self._w = w
        self._groups: dict[tuple[str, tuple[int, ...]], list[_Member]] = {}
        self._added = 0

    @property
    def full(self) -> bool:
        """Whether a record with other units would be turned away."""
        return len(self._groups) >= self._w

    def add(self, found: Iterable[tuple[Ranked, Stored]]) -> None:
        """Takes records that rank behind those added before."""
        for ranked, stored in found:
            self._added += 1
            place = (stored.record.document_id, stored.record.pointers)
            if place in self._groups or not self.full:
                self._groups.setdefault(place, []).append(_Member(self._added, ranked, stored))

    def candidates(self) -> tuple[Candidate, ...]:
        """The candidates so far, best first."""
        return tuple(_candidate(members) for members in self._groups.values())


def _candidate(members: Sequence[_Member]) -> Candidate:
    best, stored = members[0].ranked, members[0].stored
    legs = sorted({leg for member in members for leg in member.ranked.scores})
    return Candidate(
        document=stored.document,
        units=stored.units,
        records=tuple(member.stored.record for member in members),
        key=stored.record.keys[best.key],
        score=best.score,
        scores={leg: _best_score(leg, (member.ranked for member in members)) for leg in legs},
        ranks=tuple(member.rank for member in members),
    )

"""Dense scores of `keys+units`: of a record's best key and its best unit, added; all, or of what is found."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mrag.collection.dense import DenseIndex, Scores
from mrag.collection.filtering import Admitted
from mrag.collection.ids import Rows
from mrag.collection.merging import FIRST_FACTOR, GROWTH, at_least
from mrag.collection.payload import starts
from mrag.collection.pointing import Pointing, ranges
from mrag.collection.shard import RecordSpace
from mrag.schema import Vectors

ALL_FROM = 8  # What finds an eighth of all is dearer than scoring all.
Best = tuple[Scores, Rows, Rows]


@dataclass(frozen=True)
class SummedScores:
    """Both kinds of vectors of some shards, and which records they lead to."""

    space: RecordSpace
    pointing: Pointing
    keys: DenseIndex
    units: DenseIndex

    def best(self, vector: Vectors, weight: float, depth: int, admitted: Admitted) -> Best:
        """Scores, records and best keys of at least the `depth` best admitted records, in no order.

        Where an index is not exact, candidates are asked for until no record that neither of the two found
        could be among the best: its sum is no more than that of the last scores on both sides.
        """
        count = depth * FIRST_FACTOR
        if self.keys.exact and self.units.exact:
            return self._of_all(vector, weight, depth, admitted)
        units_wanted = None
        if admitted.keys is not None:
            units_wanted = self.pointing.pointed_to(admitted.records)
        while count * ALL_FROM < min(self.space.keys, self.pointing.units):
            key_scores, keys = self.keys.search(vector, count, admitted.keys)
            unit_scores, units = self.units.search(vector, count, units_wanted)
            records = self._records(keys, units, admitted)
            scores, best_keys = self._sums(vector, weight, records)
            complete = len(keys) < count and len(units) < count
            if complete or _enough(scores, depth, key_scores[-1] + np.float32(weight) * unit_scores[-1]):
                chosen = at_least(scores, depth)
                return scores[chosen], records[chosen], best_keys[chosen]
            count *= GROWTH
        return self._of_all(vector, weight, depth, admitted)

    def _of_all(self, vector: Vectors, weight: float, depth: int, admitted: Admitted) -> Best:
        keys, first = self.keys.scores(vector), self.space.first_key
        scores = np.maximum.reduceat(keys, first[:-1])
        scores += np.float32(weight) * self.pointing.best(self.units.scores(vector))
        scores[~admitted.records] = -np.inf
        records = at_least(scores, depth)
        best_keys = [int(first[row] + np.argmax(keys[first[row] : first[row + 1]])) for row in records]
        return scores[records], records, np.array(best_keys, np.int64)

    def _records(self, keys: Rows, units: Rows, admitted: Admitted) -> Rows:
        by_key = np.searchsorted(self.space.first_key, keys, "right") - 1
        found = np.union1d(by_key, self.pointing.records(units)[1])
        return found[admitted.records[found]]

    def _sums(self, vector: Vectors, weight: float, records: Rows) -> tuple[Scores, Rows]:
        """The scores of some records, and the row of the best key of each."""
        if not len(records):
            return np.empty(0, np.float32), records
        first = self.space.first_key[records]
        lengths = self.space.first_key[records + 1] - first
        keys = self.keys.scores_of(vector, ranges(first, lengths))
        ends = starts(lengths)
        best = [int(np.argmax(keys[one:other])) for one, other in pairwise(ends)]
        units, begins = self.pointing.units_of(records)
        unit_scores = np.maximum.reduceat(self.units.scores_of(vector, units), begins)
        return np.maximum.reduceat(keys, ends[:-1]) + np.float32(weight) * unit_scores, first + best


def _enough(scores: Scores, depth: int, unseen: np.float32) -> bool:
    """Whether `depth` of the scores are above what is not seen."""
    return len(scores) >= depth and bool(np.partition(scores, len(scores) - depth)[-depth] > unseen)

"""Which records point to which source units: from what is said of units to what is said of records."""

from __future__ import annotations

import numpy as np

from mrag.collection.ids import Rows
from mrag.collection.merging import Scores
from mrag.collection.payload import starts


class Pointing:
    """Pointers as pairs of a record's row and a unit's row (n,), in the order of the records.

    Every record has a pointer; `units` is the number of units, pointed to or not.
    """

    def __init__(self, record_rows: Rows, unit_rows: Rows, units: int) -> None:
        self._units_by_record = unit_rows
        _, self._first_of_record = np.unique(record_rows, return_index=True)
        order = np.argsort(unit_rows, kind="stable")
        self._records_by_unit = record_rows[order]
        self._first_of_unit = starts(np.bincount(unit_rows, minlength=units))

    def best(self, scores: Scores) -> Scores:
        """Of the scores of all units, for each record that of the best unit it points to."""
        if not len(self._first_of_record):
            return np.empty(0, np.float32)
        return np.maximum.reduceat(scores[self._units_by_record], self._first_of_record)

    def records(self, unit_rows: Rows) -> tuple[Rows, Rows]:
        """The records that point to some units: for each its place among the given rows, and its own row."""
        first = self._first_of_unit[unit_rows]
        counts = self._first_of_unit[unit_rows + 1] - first
        places = np.repeat(np.arange(len(unit_rows)), counts)
        within = np.arange(len(places)) - np.repeat(starts(counts)[:-1], counts)
        return places, self._records_by_unit[first[places] + within]

"""Which records point to which source units: from what is said of units to what is said of records."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mrag.collection.ids import Rows
from mrag.collection.merging import Scores
from mrag.collection.payload import starts


class Pointing:
    """Pointers as pairs of a record's row and a unit's row (n,), in the order of the records.

    Every record has a pointer; `units` is the number of units, pointed to or not.
    """

    def __init__(self, record_rows: Rows, unit_rows: Rows, units: int) -> None:
        self.units = units
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

    def pointed_to(self, admitted: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which units (m,) some of the admitted records (n,) point to."""
        pointed = np.zeros(self.units, np.bool_)
        pointed[self._units_by_record[np.repeat(admitted, self._lengths())]] = True
        return pointed

    def units_of(self, record_rows: Rows) -> tuple[Rows, Rows]:
        """The units that some records point to, record by record, and where those of each begin."""
        lengths = self._lengths()[record_rows]
        return self._units_by_record[ranges(self._first_of_record[record_rows], lengths)], starts(lengths)[
            :-1
        ]

    def _lengths(self) -> Rows:
        return np.diff(self._first_of_record, append=len(self._units_by_record))

    def records(self, unit_rows: Rows) -> tuple[Rows, Rows]:
        """The records that point to some units: for each its place among the given rows, and its own row."""
        first = self._first_of_unit[unit_rows]
        counts = self._first_of_unit[unit_rows + 1] - first
        return np.repeat(np.arange(len(unit_rows)), counts), self._records_by_unit[ranges(first, counts)]


def ranges(first: Rows, lengths: Rows) -> Rows:
    """The numbers of ranges that begin at `first` (n,) and are so long, one range after the other."""
    within = np.arange(lengths.sum()) - np.repeat(starts(lengths)[:-1], lengths)
    rows: Rows = np.repeat(first, lengths) + within
    return rows

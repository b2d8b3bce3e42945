"""The table of an experiment: a line for each variant, and what it changes against the first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from mrag.evaluation.evaluate import Evaluation
from mrag.evaluation.experiment import Case
from mrag.evaluation.measures import Row, by_measure, table_measures
from mrag.evaluation.metrics import Interval, Part, paired_interval, ratio_interval
from mrag.evaluation.sections import Section, excerpt

ALL = "all sets"
ABSENT = "–"
NAMED = 20
ORDER = ("recall@", "recall read", "gain", "exact match", "F1", "verified", "LLM")
Line = Mapping[str, list[Part]]


@dataclass(frozen=True)
class Comparison:
    """The cases of the experiment `name`, and what came of each, in the same order."""

    name: str
    cases: Sequence[Case]
    evaluations: Sequence[Evaluation]
    seed: int

    @property
    def exit_code(self) -> int:
        """1 where a question failed, else 0."""
        return 1 if any(row.error for found in self.evaluations for row in found.rows) else 0

    @cached_property
    def tables(self) -> Mapping[str, Table]:
        """By set, and for all of them together where there are several."""
        sets = list(dict.fromkeys(case.set for case in self.cases))
        tables = {name: Table(self._rows({name}), self.seed) for name in sets}
        return tables if len(sets) == 1 else {**tables, ALL: Table(self._rows(set(sets)), self.seed)}

    def _rows(self, sets: set[str]) -> dict[str, list[Row]]:
        rows: dict[str, list[Row]] = {}
        for case, found in zip(self.cases, self.evaluations, strict=True):
            if case.set in sets:
                rows.setdefault(case.variant, []).extend(found.rows)
        return rows

    def sections(self) -> Iterator[Section]:
        """The tables, and by name what stood in the way."""
        for name, table in self.tables.items():
            about = (
                f"{table.questions} questions of {name}, seed {self.seed}; recall is that of the labelled "
                "passages, or documents; in brackets the interval of 95 % by bootstrap over the questions."
            )
            yield Section(f"{self.name}: {name}", about, *table.values())
            if len(table.lines) > 1:
                about = f"Each variant minus {table.base}, with the same questions drawn for both."
                yield Section(f"{self.name}: {name}, differences", about, *table.differences())
        yield from self._troubles("Failed", "Questions that count as 0.", lambda row: [row.error])
        yield from self._troubles(
            "Not in the collection", "Gold that counts as not found.", lambda row: row.missing
        )

    def _troubles(self, title: str, about: str, of: Callable[[Row], Iterable[str]]) -> Iterator[Section]:
        rows = [
            (case.variant, row.id, excerpt(trouble))
            for case, found in zip(self.cases, self.evaluations, strict=True)
            for row in found.rows
            for trouble in of(row)
            if trouble
        ]
        if rows:
            more = f" The first {NAMED} of {len(rows)}." if len(rows) > NAMED else ""
            yield Section(title, about + more, ("variant", "question", "what"), tuple(rows[:NAMED]))

    def as_dict(self) -> dict[str, Any]:
        """Tables, settings and every question's row as JSON values."""
        return {
            "experiment": self.name,
            "seed": self.seed,
            "tables": {name: table.as_dict() for name, table in self.tables.items()},
            "cases": [
                {
                    "set": case.set,
                    "variant": case.variant,
                    "generation": found.generation,
                    "seconds": found.seconds,
                    "settings": case.settings.model_dump(mode="json"),
                    "rows": [asdict(row) for row in found.rows],
                }
                for case, found in zip(self.cases, self.evaluations, strict=True)
            ],
        }


class Table:
    """The variants on the same questions, by name in their order."""

    def __init__(self, rows: Mapping[str, Sequence[Row]], seed: int) -> None:
        self.lines: dict[str, Line] = {
            variant: by_measure([dict(table_measures(row)) for row in found])
            for variant, found in rows.items()
        }
        self.base = next(iter(rows))
        self.questions = len(rows[self.base])
        self._seed = seed
        names = dict.fromkeys(name for line in self.lines.values() for name in line)
        self.measures = sorted(names, key=_place)

    def found(self, line: Line) -> dict[str, Interval]:
        """Its measures."""
        return {name: ratio_interval(parts, self._seed) for name, parts in line.items()}

    def against_base(self, line: Line) -> dict[str, Interval]:
        """What it changes, in the measures that both have."""
        base = self.lines[self.base]
        return {
            name: paired_interval(parts, base[name], self._seed)
            for name, parts in line.items()
            if name in base
        }

    def values(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """Head and rows."""
        return self._table({variant: self.found(line) for variant, line in self.lines.items()}, "")

    def differences(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """Head and rows, of all but the base."""
        others = {name: line for name, line in self.lines.items() if name != self.base}
        return self._table({name: self.against_base(line) for name, line in others.items()}, "+")

    def _table(
        self, lines: Mapping[str, Mapping[str, Interval]], sign: str
    ) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        shown = [name for name in self.measures if any(name in line for line in lines.values())]
        head = ("variant", *(name if name.startswith("LLM") else f"{name} %" for name in shown))
        return head, tuple(
            (variant, *(_cell(name, line.get(name), sign) for name in shown))
            for variant, line in lines.items()
        )

    def as_dict(self) -> dict[str, Any]:
        """Measures and differences, unrounded."""
        return {
            variant: {
                "measures": {name: asdict(found) for name, found in self.found(line).items()},
                "differences": {name: asdict(found) for name, found in self.against_base(line).items()}
                if variant != self.base
                else {},
            }
            for variant, line in self.lines.items()
        }


def _place(measure: str) -> int:
    return next(place for place, prefix in enumerate(ORDER) if measure.startswith(prefix))


def _cell(name: str, found: Interval | None, sign: str) -> str:
    if found is None:
        return ABSENT
    scale, digits = (1, 0 if "tokens" in name else 1) if name.startswith("LLM") else (100, 1)
    signed = sign if name != "gain" else "+"
    mean, low, high = (scale * value + 0.0 for value in (found.mean, found.low, found.high))
    return f"{mean:{signed},.{digits}f} [{low:{signed},.{digits}f}, {high:{signed},.{digits}f}]"

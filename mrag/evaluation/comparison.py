"""The table of an experiment: a line for each variant, and what it changes against the first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from mrag.evaluation.evaluate import Evaluation
from mrag.evaluation.experiment import Case
from mrag.evaluation.measures import Row, by_measure, is_share, table_measures
from mrag.evaluation.metrics import Interval, paired_interval, ratio_interval
from mrag.evaluation.sections import ABSENT, Section, excerpt, number

ALL = "all sets"
NAMED = 20
ORDER = ("recall@", "recall read", "gain", "exact match", "F1", "abstained", "verified", "LLM", "seconds")
Line = Mapping[str, Interval]


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
            yield table.section(f"{self.name}: {name}", about)
            if len(table.lines) > 1:
                about = f"Each variant minus {table.base}, with the same questions drawn for both."
                yield table.differences(f"{self.name}: {name}, differences", about)
        yield from self._named("Failed", "Questions that count as 0.", _failure)
        yield from self._named("Not in the collection", "Gold that counts as not found.", _missing)
        yield from self._named("Noted", "What the stages said of their answers.", lambda row: row.notes)

    def _named(self, title: str, about: str, of: Callable[[Row], Iterable[str]]) -> Iterator[Section]:
        """What is told of questions, by variant, the most frequent first."""
        told = Counter(
            (case.variant, excerpt(trouble))
            for case, found in zip(self.cases, self.evaluations, strict=True)
            for row in found.rows
            for trouble in of(row)
        )
        rows = [(*what, number(many)) for what, many in told.most_common(NAMED)]
        if rows:
            more = f" The first {NAMED} of {len(told)}." if len(told) > NAMED else ""
            yield Section(title, about + more, ("variant", "what", "questions"), tuple(rows))

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
        self._parts = {
            variant: by_measure([dict(table_measures(row)) for row in found])
            for variant, found in rows.items()
        }
        self.base = next(iter(rows))
        self.questions = len(rows[self.base])
        self.lines: dict[str, Line] = {
            variant: {name: ratio_interval(parts, seed) for name, parts in measures.items()}
            for variant, measures in self._parts.items()
        }
        self.changes: dict[str, Line] = {
            variant: self._against_base(variant, seed) for variant in rows if variant != self.base
        }

    def _against_base(self, variant: str, seed: int) -> Line:
        """What it changes, in the measures that both have."""
        ours, base = self._parts[variant], self._parts[self.base]
        return {name: paired_interval(ours[name], base[name], seed) for name in ours if name in base}

    def section(self, title: str, about: str) -> Section:
        """A line for each variant."""
        return _section(title, about, self.lines, "")

    def differences(self, title: str, about: str) -> Section:
        """A line for each variant but the base."""
        return _section(title, about, self.changes, "+")

    def as_dict(self) -> dict[str, Any]:
        """Measures and differences, unrounded."""
        return {
            variant: {
                "measures": {name: asdict(found) for name, found in line.items()},
                "differences": {name: asdict(found) for name, found in self.changes.get(variant, {}).items()},
            }
            for variant, line in self.lines.items()
        }


def _section(title: str, about: str, lines: Mapping[str, Line], sign: str) -> Section:
    shown = sorted(dict.fromkeys(name for line in lines.values() for name in line), key=_place)
    head = ("variant", *(f"{name} %" if is_share(name) else name for name in shown))
    rows = (
        (variant, *(_cell(name, line.get(name), sign) for name in shown)) for variant, line in lines.items()
    )
    return Section(title, about, head, tuple(rows))


def _failure(row: Row) -> Iterator[str]:
    if row.error:
        yield f"{row.id}: {row.error}"


def _missing(row: Row) -> Iterator[str]:
    return (f"{row.id}: {gold}" for gold in row.missing)


def _place(measure: str) -> int:
    return next(place for place, prefix in enumerate(ORDER) if measure.startswith(prefix))


def _cell(name: str, found: Interval | None, sign: str) -> str:
    if found is None:
        return ABSENT
    scale, digits = (100, 1) if is_share(name) else (1, 0 if "tokens" in name else 1)
    signed = sign if name != "gain" else "+"
    mean, low, high = (scale * value + 0.0 for value in (found.mean, found.low, found.high))
    return f"{mean:{signed},.{digits}f} [{low:{signed},.{digits}f}, {high:{signed},.{digits}f}]"

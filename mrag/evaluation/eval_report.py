"""An evaluation as sections for people and as JSON for programs, which can compare two runs by their rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mrag.evaluation.evaluate import Evaluation
from mrag.evaluation.measures import Row, by_measure, is_share, measures
from mrag.evaluation.metrics import Interval, ratio_interval
from mrag.evaluation.sections import Section, excerpt, number, percent
from mrag.settings import Settings

NAMED = 10


@dataclass(frozen=True)
class EvalReport:
    """What was asked (`questions` names the file), under which settings, and what came of it."""

    settings: Settings
    questions: str
    evaluation: Evaluation
    seed: int

    @property
    def rows(self) -> tuple[Row, ...]:
        """One for each question."""
        return self.evaluation.rows

    @property
    def exit_code(self) -> int:
        """1 where a question failed, else 0."""
        return 1 if any(row.error for row in self.rows) else 0

    def measures(self) -> Mapping[str, Interval]:
        """By name the mean over the questions that have the measure, and its interval."""
        found = by_measure([dict(measures(row)) for row in self.rows])
        return {name: ratio_interval(parts, self.seed) for name, parts in found.items()}

    def sections(self) -> Iterator[Section]:
        """The measures, and by name what stood in their way."""
        rows = tuple((name, *_cells(name, found)) for name, found in self.measures().items())
        yield Section("Evaluation", self._about(), ("measure", "mean", "from", "to", "questions"), rows)
        notes = Counter(excerpt(note) for row in self.rows for note in row.notes)
        noted = tuple((note, number(many)) for note, many in notes.most_common())
        yield from _named("Noted", "What the stages said of their answers.", ("note", "questions"), noted)
        missing = tuple((row.id, excerpt(name)) for row in self.rows for name in row.missing)
        yield from _named(
            "Not in the collection", "Gold that counts as not found.", ("question", "gold"), missing
        )
        errors = tuple((row.id, excerpt(row.error)) for row in self.rows if row.error)
        yield from _named("Failed", "Questions that count as 0.", ("question", "error"), errors)

    def _about(self) -> str:
        method, place = self.settings.method, self.settings.collection
        reader = f", {method.reader.name}" if any(row.answer is not None for row in self.rows) else ""
        found = self.evaluation
        return (
            f"{len(self.rows)} questions of {self.questions} to collection {place.name}, generation "
            f"{found.generation}, by {method.retrieval.name}{reader}, in {found.seconds:.0f} s. "
            "Recall is over the first k candidates; intervals of 95 % by bootstrap over the questions."
        )

    def as_dict(self) -> dict[str, Any]:
        """Settings, measures and every row as JSON values."""
        return {
            "questions": self.questions,
            "seed": self.seed,
            "seconds": self.evaluation.seconds,
            "generation": self.evaluation.generation,
            "settings": self.settings.model_dump(mode="json"),
            "measures": {name: asdict(found) for name, found in self.measures().items()},
            "rows": [asdict(row) for row in self.rows],
        }


def _cells(name: str, found: Interval) -> tuple[str, ...]:
    show = percent if is_share(name) else number
    return (*(show(float(value)) for value in (found.mean, found.low, found.high)), number(found.count))


def _named(
    title: str, about: str, head: tuple[str, ...], rows: tuple[tuple[str, ...], ...]
) -> Iterator[Section]:
    if rows:
        more = f" The first {NAMED} of {len(rows)}." if len(rows) > NAMED else ""
        yield Section(title, about + more, head, rows[:NAMED])

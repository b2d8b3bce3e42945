"""What came of a run, for the terminal and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mrag.schema import Coverage, Outcome, Status, Usage

_NAMED = (Status.FAILED, Status.DUPLICATE, Status.UNSUPPORTED, Status.EMPTY, Status.PENDING)


@dataclass(frozen=True)
class Report:
    """Counts over all inputs, and by name those that were not indexed.

    `removed` names the documents that the inputs lack and that are gone from the collection, `withheld` says
    why such were not removed.

    `compaction` says what came of one that `collection.compaction` asked for.

    `counts` has every status; they add up to the inputs. `rejected` counts reply parts by reason.
    """

    counts: Mapping[Status, int]
    named: tuple[Outcome, ...]
    removed: tuple[str, ...]
    withheld: str
    records: int
    rejected: Mapping[str, int]
    coverage: Coverage
    usage: Usage
    reused: Usage
    seconds: float
    generation: int
    compaction: str = ""

    @property
    def inputs(self) -> int:
        """Number of inputs, whatever became of them."""
        return sum(self.counts.values())

    @property
    def fallback_share(self) -> float:
        """Share of the indexed source units that only a fallback record points to."""
        return self.coverage.fallback / self.coverage.units if self.coverage.units else 0.0

    @property
    def exit_code(self) -> int:
        """1 where an input failed, else 0."""
        return 1 if self.counts[Status.FAILED] else 0

    def table(self) -> list[tuple[str, str]]:
        """Rows of a label and a value, the named inputs last."""
        rows = [("inputs", str(self.inputs))]
        rows += [(status.value, str(count)) for status, count in self.counts.items() if count]
        rows += [("removed", str(len(self.removed)))] if self.removed else []
        if self.counts[Status.INDEXED] or self.usage.calls:
            rows += self._work()
        rows += [("seconds", f"{self.seconds:.1f}"), ("generation", str(self.generation))]
        rows += [("compacted", self.compaction)] if self.compaction else []
        rows += [
            (outcome.status.value, f"{outcome.id}: {outcome.detail}".rstrip(": ")) for outcome in self.named
        ]
        rows += [("removed", identifier) for identifier in self.removed]
        return rows + ([("not removed", self.withheld)] if self.withheld else [])

    def _work(self) -> list[tuple[str, str]]:
        asked, reused = self.usage, self.reused
        rows = [
            ("source units", str(self.coverage.units)),
            ("records", f"{self.records} ({sum(self.rejected.values())} rejected)"),
            (
                "coverage",
                f"{self.coverage.before_repair:.1%} before repair, {self.coverage.after_repair:.1%} after",
            ),
            ("fallback", f"{self.fallback_share:.1%} of the units"),
            ("LLM", f"{asked.calls} calls, {asked.prompt_tokens} + {asked.completion_tokens} tokens"),
        ]
        if reused.calls:
            rows.append(("from the ledger", f"{reused.calls} calls, {reused.tokens} tokens not asked again"))
        return rows

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "inputs": self.inputs,
            "counts": {status.value: count for status, count in self.counts.items()},
            "removed": list(self.removed),
            "withheld": self.withheld,
            "units": self.coverage.units,
            "records": self.records,
            "rejected": dict(self.rejected),
            "coverage_before_repair": self.coverage.before_repair,
            "coverage_after_repair": self.coverage.after_repair,
            "fallback_share": self.fallback_share,
            "llm_calls": self.usage.calls,
            "llm_prompt_tokens": self.usage.prompt_tokens,
            "llm_completion_tokens": self.usage.completion_tokens,
            "reused_calls": self.reused.calls,
            "reused_tokens": self.reused.tokens,
            "seconds": self.seconds,
            "generation": self.generation,
            "compaction": self.compaction,
            "named": [
                {"id": outcome.id, "status": outcome.status.value, "detail": outcome.detail}
                for outcome in self.named
            ],
        }


def report(
    outcomes: Iterable[Outcome],
    seconds: float,
    generation: int,
    removed: tuple[str, ...] = (),
    withheld: str = "",
    compaction: str = "",
) -> Report:
    """Sums the outcomes, taken one by one: only those with a name to report are kept."""
    counts: Counter[Status] = Counter()
    named: list[Outcome] = []
    rejected: Counter[str] = Counter()
    records = units = extracted = fallback = 0
    usage, reused = Usage(), Usage()
    for outcome in outcomes:
        counts[outcome.status] += 1
        if outcome.status in _NAMED:
            named.append(outcome)
        records += outcome.records
        rejected.update(outcome.rejected)
        units += outcome.coverage.units
        extracted += outcome.coverage.extracted
        fallback += outcome.coverage.fallback
        usage += outcome.usage
        reused += outcome.reused
    return Report(
        counts={status: counts[status] for status in Status},
        named=tuple(sorted(named, key=lambda outcome: (_NAMED.index(outcome.status), outcome.id))),
        removed=removed,
        withheld=withheld,
        records=records,
        rejected=dict(rejected.most_common()),
        coverage=Coverage(units, extracted, fallback),
        usage=usage,
        reused=reused,
        seconds=seconds,
        generation=generation,
        compaction=compaction,
    )

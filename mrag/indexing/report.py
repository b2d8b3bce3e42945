"""What came of a run, for the terminal and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mrag.indexing.plan import Plan
from mrag.schema import Coverage, Outcome, Status, Usage

_NAMED = (Status.FAILED, Status.DUPLICATE, Status.UNSUPPORTED, Status.EMPTY, Status.PENDING)


@dataclass(frozen=True)
class Published:
    """The generation in force, 0 where there is none, and what came of a compaction that was due.

    `promoted` and `bared` are inputs whose text a document had that is gone or changed: the former are
    indexed in its place, the latter could not be, and are by the next run over their folder.
    """

    generation: int
    compaction: str = ""
    promoted: tuple[str, ...] = ()
    bared: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """Counts over all inputs, and by name those that were not indexed.

    `removed` names the documents that the inputs lack and that are gone from the collection, `withheld` says
    why such were not removed.

    `generation`, `compaction`, `promoted` and `bared` are those of what was `Published`; `left` is what the
    documents that a cap left pending would still ask of the language model.

    `counts` has every status; they add up to the inputs. `rejected` counts reply parts by reason: records,
    and keys of records that stay. `cost` is what the indexed documents took of the language model, in this
    run and before it, `source_tokens` what they have, as the encoder counts.
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
    cost: Usage
    source_tokens: int
    compaction: str = ""
    promoted: tuple[str, ...] = ()
    bared: tuple[str, ...] = ()
    left: Plan | None = None

    @property
    def inputs(self) -> int:
        """Number of inputs, whatever became of them."""
        return sum(self.counts.values())

    @property
    def fallback_share(self) -> float:
        """Share of the indexed source units that only a fallback record points to."""
        return self.coverage.fallback / self.coverage.units if self.coverage.units else 0.0

    @property
    def shares(self) -> Mapping[str, float]:
        """Of all records, those that were rejected among them: validated, rejected and fallback ones."""
        fallback, rejected = self.coverage.fallback, sum(self.rejected.values())
        counts = {"validated": self.records - fallback, "rejected": rejected, "fallback": fallback}
        total = sum(counts.values())
        return {name: count / total if total else 0.0 for name, count in counts.items()}

    @property
    def tokens_per_source_token(self) -> tuple[float, float]:
        """What the language model read and wrote for each token of the indexed documents."""
        tokens = self.cost.prompt_tokens, self.cost.completion_tokens
        read, written = (count / self.source_tokens if self.source_tokens else 0.0 for count in tokens)
        return read, written

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
        rows += [("left", f"{self.left.sentence()}: run again to go on")] if self.left else []
        rows += [
            (outcome.status.value, f"{outcome.id}: {outcome.detail}".rstrip(": ")) for outcome in self.named
        ]
        rows += [("removed", identifier) for identifier in self.removed]
        rows += handed_on(self.promoted, self.bared)
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
        if self.cost.calls:
            shares = ", ".join(f"{share:.1%} {name}" for name, share in self.shares.items())
            read, written = self.tokens_per_source_token
            rows.insert(2, ("shares", shares))
            rows.append(("for each source token", f"{read:.2f} LLM tokens read, {written:.2f} written"))
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
            "promoted": list(self.promoted),
            "bared": list(self.bared),
            "units": self.coverage.units,
            "records": self.records,
            "rejected": dict(self.rejected),
            "coverage_before_repair": self.coverage.before_repair,
            "coverage_after_repair": self.coverage.after_repair,
            "fallback_share": self.fallback_share,
            "record_shares": dict(self.shares),
            "source_tokens": self.source_tokens,
            "tokens_read_per_source_token": self.tokens_per_source_token[0],
            "tokens_written_per_source_token": self.tokens_per_source_token[1],
            "llm_calls": self.usage.calls,
            "llm_prompt_tokens": self.usage.prompt_tokens,
            "llm_completion_tokens": self.usage.completion_tokens,
            "reused_calls": self.reused.calls,
            "reused_tokens": self.reused.tokens,
            "seconds": self.seconds,
            "generation": self.generation,
            "compaction": self.compaction,
            "left": asdict(self.left.left) if self.left else None,
            "named": [
                {"id": outcome.id, "status": outcome.status.value, "detail": outcome.detail}
                for outcome in self.named
            ],
        }


def handed_on(promoted: Iterable[str], bared: Iterable[str]) -> list[tuple[str, str]]:
    """Rows of a label and a value, for those whose text another document had."""
    rows = [("indexed in its place", identifier) for identifier in promoted]
    return rows + [("same text, not indexed", identifier) for identifier in bared]


def report(
    outcomes: Iterable[Outcome],
    seconds: float,
    done: Published,
    removed: tuple[str, ...] = (),
    withheld: str = "",
    left: Plan | None = None,
) -> Report:
    """Sums the outcomes, taken one by one: only those with a name to report are kept."""
    counts: Counter[Status] = Counter()
    named: list[Outcome] = []
    rejected: Counter[str] = Counter()
    records = units = extracted = fallback = source_tokens = 0
    usage, reused, cost = Usage(), Usage(), Usage()
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
        source_tokens += outcome.source_tokens
        if outcome.status is Status.INDEXED:
            cost += outcome.usage + outcome.reused
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
        generation=done.generation,
        compaction=done.compaction,
        left=left,
        promoted=done.promoted,
        bared=done.bared,
        cost=cost,
        source_tokens=source_tokens,
    )

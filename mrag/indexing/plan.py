"""What a run would ask of the language model, before it asks: calls, tokens, money, hours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from mrag.collection import check_stamp, known_documents, read_manifest
from mrag.indexing.builder import Builder, Estimate
from mrag.indexing.builders import make_builder
from mrag.indexing.diff import Input, diff
from mrag.indexing.ledger import Ledger, ledger_key
from mrag.indexing.stages import read_wanted, scan
from mrag.indexing.stamp import collection_stamp
from mrag.models.language_model import LanguageModel
from mrag.models.opening import counting_model, open_encoder
from mrag.models.tokens import load_tokenizer
from mrag.schema import Document, Outcome, Status, Usage
from mrag.settings import RateSettings, Settings

MILLION = 1e6
HOUR_S = 3600
ANNOUNCED = 100  # documents that a run looks at before it says what it is about to ask


@dataclass(frozen=True)
class Plan:
    """An estimate: `left` is to be asked, `kept` is in the ledger already.

    Prompt tokens are exact for the first round, completion tokens are what the papers' records have;
    what is asked again comes on top. `planned` of the `documents` were looked at, the rest is taken to
    be like them.
    """

    documents: int = 0
    planned: int = 0
    units: int = 0
    left: Usage = field(default_factory=Usage)
    kept: Usage = field(default_factory=Usage)

    def plus(self, units: int, left: Usage, kept: Usage) -> Plan:
        """One more document that was looked at."""
        return replace(
            self,
            planned=self.planned + 1,
            units=self.units + units,
            left=self.left + left,
            kept=self.kept + kept,
        )

    def scaled(self) -> Plan:
        """The same for all documents."""
        factor = self.documents / self.planned if self.planned else 1.0
        return replace(
            self,
            units=round(self.units * factor),
            left=_times(self.left, factor),
            kept=_times(self.kept, factor),
        )

    def tokens_left(self, calls: int) -> int:
        """What is left to be spent after so many calls, without what is asked again."""
        share = max(0, self.left.calls - calls) / self.left.calls if self.left.calls else 0.0
        return round(self.left.tokens * share)

    def sentence(self) -> str:
        """For the beginning of a run."""
        if not self.left.calls and not self.kept.calls:
            return f"{self.documents:,} documents to index, none by a language model"
        seen = "" if self.planned == self.documents else f", estimated from {self.planned} of them"
        kept = f"; {self.kept.calls:,} calls are in the ledger already" if self.kept.calls else ""
        return (
            f"{self.documents:,} documents to index{seen}: about {self.left.calls:,} LLM calls, "
            f"{self.left.prompt_tokens:,} + {self.left.completion_tokens:,} tokens{kept}"
        )

    def table(self, rates: Mapping[str, RateSettings]) -> list[tuple[str, str]]:
        """Rows of a label and a value; one row for each model with rates."""
        rows = [
            ("documents to index", f"{self.documents:,}"),
            ("source units", f"{self.units:,}"),
            ("LLM calls", f"{self.left.calls:,}"),
            ("prompt tokens", f"{self.left.prompt_tokens:,}"),
            ("completion tokens, expected", f"{self.left.completion_tokens:,}"),
            ("in the ledger already", f"{self.kept.calls:,} calls, {self.kept.tokens:,} tokens"),
        ]
        return rows + [(name, cost(self.left, rate)) for name, rate in rates.items()]

    def as_dict(self, rates: Mapping[str, RateSettings]) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "documents": self.documents,
            "units": self.units,
            "left": asdict(self.left),
            "in_ledger": asdict(self.kept),
            "rates": {
                name: {
                    "money": money_of(self.left, rate),
                    "currency": rate.currency,
                    "hours": hours_of(self.left, rate),
                }
                for name, rate in rates.items()
            },
        }


def _times(usage: Usage, factor: float) -> Usage:
    return Usage(
        round(usage.calls * factor),
        round(usage.prompt_tokens * factor),
        round(usage.completion_tokens * factor),
    )


def cost(usage: Usage, rate: RateSettings) -> str:
    """Money and hours at a model's prices and speeds, as far as they are given."""
    parts = []
    if (money := money_of(usage, rate)) is not None:
        parts.append(f"{money:,.2f} {rate.currency}")
    if (hours := hours_of(usage, rate)) is not None:
        parts.append(f"{hours:,.2f} h")
    return ", ".join(parts)


def money_of(usage: Usage, rate: RateSettings) -> float | None:
    """In the rate's currency; None without prices."""
    if rate.prompt_price is None or rate.completion_price is None:
        return None
    return (
        usage.prompt_tokens * rate.prompt_price + usage.completion_tokens * rate.completion_price
    ) / MILLION


def hours_of(usage: Usage, rate: RateSettings) -> float | None:
    """With prompts and completions one after the other; None without speeds."""
    if rate.prompt_tokens_per_s is None or rate.completion_tokens_per_s is None:
        return None
    seconds = usage.prompt_tokens / rate.prompt_tokens_per_s
    return (seconds + usage.completion_tokens / rate.completion_tokens_per_s) / HOUR_S


def plan_run(
    folder: Path,
    inputs: Sequence[Input],
    builder: Builder,
    model: LanguageModel | None,
    ledger: Ledger,
    sample: int | None = None,
) -> Plan:
    """The plan of indexing `inputs`, of which at most `sample`, evenly spread, are looked at."""
    step = max(1, -(-len(inputs) // sample)) if sample else 1
    found = Plan(len(inputs))
    for _, document in read_wanted(folder, inputs[::step]):
        left, kept = _split(builder.estimates(document, model) if model else (), document, model, ledger)
        found = found.plus(len(builder.units(document)), left, kept)
    return found.scaled()


async def counted_plan(
    settings: Settings, folder: Path, inputs: Sequence[Input], builder: Builder, sample: int | None = None
) -> Plan:
    """The same by the settings' ledger and model, which is opened without its engine, and closed."""
    ledger = Ledger.of(settings.collection)
    async with AsyncExitStack() as stack:
        model = None
        if builder.needs_model:
            model = await counting_model(settings.indexing_model)
            stack.push_async_callback(model.close)
        return await asyncio.to_thread(plan_run, folder, inputs, builder, model, ledger, sample)


async def plan_left(
    settings: Settings, folder: Path, inputs: Sequence[Input], outcomes: Iterable[Outcome], builder: Builder
) -> Plan | None:
    """The plan of those `inputs` that ended as `pending`; None where none did."""
    pending = {outcome.id for outcome in outcomes if outcome.status is Status.PENDING}
    left = [item for item in inputs if item.id in pending]
    return await counted_plan(settings, folder, left, builder, ANNOUNCED) if left else None


def _split(
    estimates: Iterable[Estimate], document: Document, model: LanguageModel | None, ledger: Ledger
) -> tuple[Usage, Usage]:
    """What is to be asked for a document, and what it has in the ledger."""
    left, kept, entries = Usage(), Usage(), ledger.entries(document.id)
    for request, completion_tokens in estimates:
        assert model is not None
        if reply := entries.get(ledger_key(request, model.name)):
            kept += reply.usage
        else:
            left += Usage(1, model.count_prompt_tokens(request.messages), completion_tokens)
    return left, kept


async def plan_folder(settings: Settings, folder: Path) -> Plan:
    """The plan of `index_folder`, exact but for the lengths of replies and what is asked again.

    Raises InputError for the folder, and CollectionError where `index_folder` would refuse the settings.
    """
    root, name = settings.collection.root, settings.collection.name
    inputs, _ = await asyncio.to_thread(scan, folder)
    tokenizer = await asyncio.to_thread(load_tokenizer, settings.encoder.model)
    builder = make_builder(settings, tokenizer)
    if read_manifest(root, name):
        stamp = await asyncio.to_thread(collection_stamp, settings, builder, open_encoder(settings.encoder))
        check_stamp(root, name, stamp)
    found = diff(inputs, known_documents(root, name))
    return await counted_plan(settings, folder, found.to_index, builder)

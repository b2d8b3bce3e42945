"""The builder seam: one document becomes units, records and coverage. Its siblings only draft records."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from mrag.documents.units import split_units
from mrag.indexing.asking import Asker
from mrag.indexing.coverage import fallback, uncovered
from mrag.indexing.records import Draft, records_of
from mrag.models.language_model import LanguageModel, Request
from mrag.models.tokens import Tokenizer
from mrag.schema import Built, Coverage, Document, SourceUnit, Usage
from mrag.settings import DocumentSettings


@dataclass(frozen=True)
class Drafted:
    """What a sibling makes of one document; `rejected`: failed reply parts, by reason."""

    drafts: tuple[Draft, ...]
    rejected: Mapping[str, int] = field(default_factory=dict)


class Estimate(NamedTuple):
    """A call that a document will need, and the tokens that its reply is expected to have."""

    request: Request
    completion_tokens: int


class Builder(ABC):
    """Tags, drafts, repairs. `tokenizer` is the encoder's: units are measured in its tokens.

    `parameters` say readably what else the records depend on.
    """

    name: ClassVar[str]
    needs_model: ClassVar[bool] = False

    def __init__(
        self, tokenizer: Tokenizer, documents: DocumentSettings, parameters: Mapping[str, Any]
    ) -> None:
        self._tokenizer = tokenizer
        self._documents = documents
        self.parameters = {"name": self.name, **documents.model_dump(), **parameters}

    @property
    def fingerprint(self) -> str:
        """The name and a hash of the parameters: records of equal fingerprints may stand side by side."""
        canonical = json.dumps(self.parameters, sort_keys=True)
        return f"{self.name}-{hashlib.sha256(canonical.encode()).hexdigest()[:16]}"

    def units(self, document: Document) -> tuple[SourceUnit, ...]:
        """The source units of a document, as its records will point to them."""
        return split_units(document, self._tokenizer, self._documents.max_unit_tokens, self._documents.unit)

    def estimates(self, document: Document, model: LanguageModel) -> Iterator[Estimate]:
        """What `build` will ask `model` at least: nothing where records come from rules."""
        return iter(())

    async def build(self, document: Document, asker: Asker | None = None) -> Built:
        """Everything of one document; after the repair every unit is pointed to by a record.

        Raises ModelError where a part of the document had no reply at all, and CapReachedError: nothing of
        it may be published then.
        """
        units = self.units(document)
        drafted = await self._draft(document, units, asker)
        gaps = uncovered(units, drafted.drafts)
        return Built(
            document,
            units,
            records_of(document, (*drafted.drafts, *map(fallback, gaps))),
            Coverage(len(units), len(units) - len(gaps), len(gaps)),
            asker.spent if asker else Usage(),
            drafted.rejected,
            asker.reused if asker else Usage(),
            sum(self._tokenizer.count(unit.text) for unit in units),
        )

    @abstractmethod
    async def _draft(
        self, document: Document, units: Sequence[SourceUnit], asker: Asker | None
    ) -> Drafted: ...

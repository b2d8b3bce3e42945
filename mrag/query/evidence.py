"""SANE eq. 9: one call turns the source units of the selected candidates into an evidence table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mrag.errors import InputError
from mrag.models.language_model import LanguageModel, Message, Request
from mrag.models.prompt import one_line, render, room
from mrag.query.blueprints import Blueprint
from mrag.query.derive import derived
from mrag.query.evidence_form import example, guidance, reply_schema
from mrag.query.evidence_reply import read_reply
from mrag.query.sheet import Passage, Sheet, cite, lay_out, unit_passages, value_passages
from mrag.query.verify import verify
from mrag.schema import Candidate, EvidenceRow, EvidenceTable, Usage, Verdict
from mrag.settings import SaneReader

ROW_TOKENS = 128
DEFAULT = SaneReader()


@dataclass(frozen=True)
class Extraction:
    """The table, verified, and what was noticed."""

    table: EvidenceTable
    usage: Usage = field(default_factory=Usage)
    notes: tuple[str, ...] = ()


class EvidenceExtractor:
    """Asks the model for evidence and checks every row.

    Under `quoting: pointed` the sheet labels sentences, a row names one, and its text is the quote, verbatim
    by construction. Under `copied` (the paper) the sheet labels whole units and the model writes the quote.
    """

    def __init__(self, model: LanguageModel, blueprints: Sequence[Blueprint]) -> None:
        self._model = model
        self._blueprints = tuple(blueprints)

    async def extract(
        self,
        question: str,
        candidates: Sequence[Candidate],
        reader: SaneReader = DEFAULT,
        around: Sequence[Candidate] = (),
        timeout_s: float | None = None,
    ) -> Extraction:
        """The evidence table over the source units of the candidates, or over their values.

        The units `around` them, the most wanted first, are shown as far as the window has room. A row is
        checked against source units, whatever was shown. Raises ModelError, and InputError (field
        `question`) for a question that leaves no room.
        """
        blueprints = self._guides(reader)
        sheet, messages, notes = self._prompt(question, candidates, around, reader)
        schema = reply_schema(blueprints, list(sheet.passages), reader)
        completion = await self._model.complete(
            Request(messages, self._reply_tokens(reader), "evidence", schema=schema, timeout_s=timeout_s)
        )
        reply = read_reply(completion.text, sheet, reader, blueprints)
        shown = cite([*candidates, *around])
        rows = tuple(verify(draft, shown) for draft in reply.drafts)
        computed, dropped = derived(rows, reply.claimed, reply.places)
        return Extraction(
            EvidenceTable(reply.schema, reply.columns, rows + computed),
            completion.usage,
            (*notes, *_remarks(rows, reply.beyond), *dropped),
        )

    def _guides(self, reader: SaneReader) -> tuple[Blueprint, ...]:
        return self._blueprints if reader.blueprints else ()

    def _reply_tokens(self, reader: SaneReader) -> int:
        return min(ROW_TOKENS * reader.max_rows, self._model.window_tokens // 4)

    def _prompt(
        self, question: str, candidates: Sequence[Candidate], around: Sequence[Candidate], reader: SaneReader
    ) -> tuple[Sheet, tuple[Message, ...], tuple[str, ...]]:
        """As many texts, best first, as the window takes."""
        of_candidates = unit_passages if reader.read == "units" else value_passages
        wanted = of_candidates(candidates)
        ranked = wanted + [text for text in unit_passages(around) if text not in wanted]
        for n in range(len(ranked), 0, -1):
            sheet = lay_out(ranked[:n], reader.quoting == "pointed", question)
            messages = self._messages(question, sheet, reader)
            if room(self._model, messages, self._reply_tokens(reader)) >= 0:
                return sheet, messages, _left_out(wanted[n:], reader)
        raise InputError("question", "The question is too long for the model's window: shorten it.")

    def _messages(self, question: str, sheet: Sheet, reader: SaneReader) -> tuple[Message, ...]:
        blueprints = self._guides(reader)
        return render(
            "evidence" if reader.quoting == "pointed" else "evidence-copied",
            guidance=guidance(blueprints, reader),
            example=example(blueprints, sheet.prefix, reader),
            label=sheet.prefix,
            sources=sheet.text,
            question=one_line(question),
        )


def _left_out(texts: Sequence[Passage], reader: SaneReader) -> tuple[str, ...]:
    what = "source units" if reader.read == "units" else "values"
    return (f"{len(texts)} {what} did not fit the model's window.",) if texts else ()


def _remarks(rows: Sequence[EvidenceRow], beyond: int) -> Iterator[str]:
    if not rows:
        yield "No evidence was extracted."
    if unverified := sum(row.verdict is Verdict.UNVERIFIED for row in rows):
        yield f"{unverified} of {len(rows)} evidence rows could not be verified."
    if beyond:
        yield f"{beyond} evidence rows beyond max_rows were left out."

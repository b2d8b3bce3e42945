"""The last call: an answer from values (M-RAG), from an evidence table (SANE eq. 10), or from raw units."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from mrag.documents.decoding import clean
from mrag.documents.facts import unsupported
from mrag.errors import EmptyReplyError, InputError
from mrag.models.language_model import LanguageModel, Message, Request
from mrag.models.prompt import one_line, render, room, shortened
from mrag.models.replies import answer_of
from mrag.query.about import PART_CHARACTERS
from mrag.query.assemble import Piece, Rules, assemble, raw_units, values
from mrag.query.citing import attributed, said, without_marks
from mrag.query.streaming import Tell, streamed
from mrag.schema import Candidate, Context, EvidenceRow, EvidenceTable, Pool, Usage, Verdict
from mrag.settings import PlainReader

REPLY_TOKENS = 256
MARGIN_TOKENS = 8  # text counted alone and text counted inside a chat differ by a token or two

Citing = Literal["rule", "model"]

_RANGE = re.compile(r"\d[\d.,]*-\d[\d.,]*")
_PREFIX = re.compile(r"^(?:the )?(?:final )?answer(?: is)?:\s*(?=\S)", re.IGNORECASE)


@dataclass(frozen=True)
class Generated:
    """The answer, the context it was read from (None for a table), and what was noticed.

    `citations` are the numbers of the table's rows that it rests on.
    """

    text: str
    context: Context | None = None
    usage: Usage = field(default_factory=Usage)
    notes: tuple[str, ...] = ()
    citations: tuple[int, ...] = ()


@dataclass(frozen=True)
class FromValues:
    """To be read: the values of a pool under the reader's budget, or its first k candidates."""

    pool: Pool
    reader: PlainReader


@dataclass(frozen=True)
class FromTable:
    """To be read: the rows of a table that are facts; the model is asked to cite them, or a rule does."""

    table: EvidenceTable
    citations: Citing = "rule"


@dataclass(frozen=True)
class FromUnits:
    """To be read: the source units of candidates under a budget, where there is no evidence."""

    candidates: tuple[Candidate, ...]
    budget_tokens: int


Reading = FromValues | FromTable | FromUnits


class Generator:
    """Asks the model for the answer. Every method raises ModelError, and InputError (field `question`)."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    async def ready(self, timeout_s: float) -> None:
        """Returns when the model has written one token, of whatever meaning. Raises ModelError."""
        request = Request((Message("user", "Say yes."),), 1, "ready", timeout_s=timeout_s)
        with contextlib.suppress(EmptyReplyError):  # A model that thinks first has said nothing yet.
            await self._model.complete(request)

    async def generate(
        self, question: str, reading: Reading, timeout_s: float | None = None, tell: Tell | None = None
    ) -> Generated:
        """The answer from whatever there is to read; `tell` is given its text in pieces while it comes."""
        match reading:
            case FromValues(pool, reader):
                return await self.answer_values(question, pool, reader, timeout_s, tell)
            case FromTable(table, citations):
                return await self.answer_table(question, table, citations, timeout_s, tell)
            case FromUnits(candidates, budget_tokens):
                return await self.answer_units(question, candidates, budget_tokens, timeout_s, tell)

    async def answer_values(
        self,
        question: str,
        pool: Pool,
        reader: PlainReader,
        timeout_s: float | None = None,
        tell: Tell | None = None,
    ) -> Generated:
        """From the values under the budget (eq. 13), or from the raw text of the first k candidates."""
        if reader.k is None:
            return await self._read(
                question, values(pool.candidates), reader.budget_tokens, Rules.of(reader), timeout_s, tell
            )
        pieces = raw_units(pool.candidates[: reader.k])
        return await self._read(
            question, pieces, self._model.window_tokens, Rules(reader.order), timeout_s, tell
        )

    async def answer_units(
        self,
        question: str,
        candidates: Iterable[Candidate],
        budget_tokens: int,
        timeout_s: float | None = None,
        tell: Tell | None = None,
    ) -> Generated:
        """From the source units under the budget, those of a document in its order."""
        return await self._read(
            question, raw_units(candidates), budget_tokens, Rules("position"), timeout_s, tell
        )

    async def answer_table(
        self,
        question: str,
        table: EvidenceTable,
        citations: Citing = "rule",
        timeout_s: float | None = None,
        tell: Tell | None = None,
    ) -> Generated:
        """From the facts of the table and nothing else; numbers that no row states are noted.

        Marks such as `[2]` are taken out of the answer, whoever asked for them: its citations are a value.
        """
        rows = dict(table.numbered_facts)
        while room(self._model, messages := _table_prompt(question, rows, citations), REPLY_TOKENS) < 0:
            if not rows:
                raise InputError("question", "The question is too long for the model's window: shorten it.")
            rows.popitem()
        reply, usage = await self._ask(messages, timeout_s, tell, unmarked)
        text, marked = without_marks(reply)
        dates = (row.source.date for row in rows.values() if row.source)
        notes = _unfounded(text, [*map(said, rows.values()), *dates], "stands in no evidence row")
        notes += _uncited(marked, rows)
        if not text:
            notes += ("The model cited rows and wrote no answer.",)
        if len(rows) < len(table.facts):
            notes += (f"{len(table.facts) - len(rows)} evidence rows did not fit the model's window.",)
        cited = tuple(n for n in marked if n in rows) or attributed(text, rows, question)
        return Generated(text, None, usage, notes, cited)

    async def _read(
        self,
        question: str,
        pieces: Iterable[Piece],
        budget_tokens: int,
        rules: Rules,
        timeout_s: float | None,
        tell: Tell | None,
    ) -> Generated:
        free = room(self._model, _context_prompt(question, ""), REPLY_TOKENS) - MARGIN_TOKENS
        if free <= 0:
            raise InputError("question", "The question is too long for the model's window: shorten it.")
        context, whole = assemble(pieces, min(budget_tokens, free), self._model.count_tokens, rules)
        text, usage = await self._ask(_context_prompt(question, context.text), timeout_s, tell, _plain)
        notes = list(_unfounded(text, (question, context.text), "does not stand in what was read"))
        if not whole and free < budget_tokens:
            notes.append("The model's window took less than the budget.")
        if context.cut:
            notes.append("The first text exceeded the budget and was cut.")
        elif not whole and not context.text:
            notes.append("No text fitted the budget: the context is empty.")
        return Generated(text, context, usage, tuple(notes))

    async def _ask(
        self,
        messages: tuple[Message, ...],
        timeout_s: float | None,
        tell: Tell | None,
        shown: Callable[[str], str],
    ) -> tuple[str, Usage]:
        """The answer of the reply; what `tell` is given of it is what is `shown` in the end."""
        request = Request(messages, REPLY_TOKENS, "answer", timeout_s=timeout_s)
        if tell is None:
            completion = await self._model.complete(request)
        else:
            completion = await streamed(self._model, request, tell, shown)
        return _plain(completion.text), completion.usage


def _plain(reply: str) -> str:
    """The answer without what models put around it."""
    return _PREFIX.sub("", answer_of(clean(reply))).strip()


def unmarked(reply: str) -> str:
    """The same without the marks of citations."""
    return without_marks(_plain(reply))[0]


def _context_prompt(question: str, context: str) -> tuple[Message, ...]:
    return render("answer", context=context, question=one_line(question))


def _table_prompt(question: str, rows: Mapping[int, EvidenceRow], citations: Citing) -> tuple[Message, ...]:
    evidence = "\n".join(f"{n}. {_line(row)}" for n, row in rows.items())
    name = "answer-cited" if citations == "model" else "answer-table"
    return render(name, evidence=evidence, question=one_line(question))


def _line(row: EvidenceRow) -> str:
    if row.verdict is Verdict.DERIVED:
        return one_line("; ".join(row.cells.values()))
    cells = "; ".join(f"{column}: {cell}" for column, cell in row.cells.items())
    line = one_line(f'{cells}; quote: "{row.quote}"')
    if row.source is None:
        return line
    origin = shortened(row.source.title or row.source.document_id, PART_CHARACTERS)
    return f"{line} ({f'{origin}, {one_line(row.source.date)}' if row.source.date else origin})"


def _uncited(marked: Iterable[int], rows: Mapping[int, EvidenceRow]) -> tuple[str, ...]:
    """A note on the rows that an answer cites and that it was not shown."""
    missing = ", ".join(str(n) for n in marked if n not in rows)
    return (f"The answer cites row {missing}, which is no row that it was given.",) if missing else ()


def _ends(range_: str) -> str:
    return range_.replace("-", " to ")


def _unfounded(text: str, given: Iterable[str], where: str) -> tuple[str, ...]:
    """A note on the numbers and dates of an answer that stand in none of what was given.

    Times, ordinals and codes are among them, which can be compared only as they are written; of a range its
    two ends.
    """
    source = " . ".join(given)
    lacking = unsupported(source, text)
    listed = [f"{number:f}" for number in sorted(lacking.numbers)]
    written = sorted(name for name in lacking.names if any(map(str.isdecimal, name)))
    listed += (one for one in written if not _RANGE.fullmatch(one) or unsupported(source, _ends(one)))
    listed += sorted("-".join(f"{part:02}" for part in date if part is not None) for date in lacking.dates)
    return (f"The answer states {', '.join(listed)}, which {where}.",) if listed else ()

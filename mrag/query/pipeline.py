"""A question from end to end: the stages in order, one deadline, and what holds when a stage does not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from mrag.errors import InputError, ModelError, ModelTimeoutError
from mrag.models.language_model import paid
from mrag.query.assemble import merged, values
from mrag.query.evidence import Extraction
from mrag.query.expected import unmet
from mrag.query.generate import FromTable, FromUnits, FromValues, Generated, Reading
from mrag.query.neighbours import Around
from mrag.query.outcome import UNKNOWN
from mrag.query.question import Question
from mrag.query.rewrite import Rewritten
from mrag.query.select import Selection
from mrag.query.streaming import Tell, as_told
from mrag.schema import (
    Answer,
    Candidate,
    EvidenceTable,
    Pool,
    Source,
    StageTrace,
    Usage,
)
from mrag.settings import PlainReader, SaneReader

MIN_POOL = 20
TOKENS_PER_VALUE = 8  # fewer than most values have; where they have fewer the pool is made again
CHARACTERS_PER_TOKEN = 6  # more than a text's tokens have on average: so many surely spend a budget
NO_MATCH = "The collection holds nothing that matches the question."


# The stages, as the methods `retrieve`, `select`, `extract` and `generate` of the core objects: the
# last argument of all but the first is what is left of the question's time, in seconds.
Retrieve = Callable[[Question, int], Awaitable[Pool]]
Select = Callable[[str, Pool, SaneReader, float | None], Awaitable[Selection]]
Extract = Callable[
    [str, Sequence[Candidate], SaneReader, Sequence[Candidate], float | None], Awaitable[Extraction]
]
Generate = Callable[[str, Reading, float | None], Awaitable[Generated]]
# The same method `generate`, which tells the text in pieces to what is its last argument.
Stream = Callable[[str, Reading, float | None, Tell], Awaitable[Generated]]
# The method `around` of `Neighbours`: part of the extraction stage, which shows what it finds.
Beside = Callable[[Question, Sequence[Candidate], int, int], Awaitable[Around]]

# Makes a question stand alone, for those that want it.
Rewrite = Callable[[Question, float | None], Awaitable[Rewritten]]


@dataclass(frozen=True)
class Evidence:
    """What the documents say to a question, without an answer in words.

    `evidence` is None where nothing was found; the rest is as in an `Answer`.
    """

    question: str
    evidence: EvidenceTable | None
    sources: tuple[Source, ...]
    selected: tuple[Source, ...]
    generation: int
    trace: tuple[StageTrace, ...]
    notes: tuple[str, ...] = ()
    partial: bool = False


T = TypeVar("T", Rewritten, Pool, Selection, Around, Extraction, Generated)
_Work = Callable[[float | None], Awaitable[T]]


class Pipeline:
    """Composes the stages, which may be methods of local objects or calls to other processes.

    A stage says that it is down by raising ModelError; one that is None is missing. Without selection the
    retrieval order holds, without extraction the source units are read, without generation the answer has
    no text but its evidence; each is noted. Without retrieval there is no answer. `beside` fetches the units
    around the selected ones, for readers that want them. `stream` generates for `answer_stream`, which
    tells the stages alone without it. `rewrite` makes a question that follows others stand alone, where its
    retrieval wants that; without it the rule's is searched for.
    """

    def __init__(
        self,
        retrieve: Retrieve,
        select: Select | None,
        extract: Extract | None,
        generate: Generate | None,
        beside: Beside | None = None,
        stream: Stream | None = None,
        rewrite: Rewrite | None = None,
    ) -> None:
        self._retrieve = retrieve
        self._select = select
        self._extract = extract
        self._generate = generate
        self._beside = beside
        self._stream = stream
        self._rewrite = rewrite

    async def retrieve(self, question: Question, w: int) -> Pool:
        """The pool alone, under the question's deadline."""
        return await self._pool(_Run(question), w)

    async def evidence(self, question: Question) -> Evidence:
        """The verified table alone: retrieved, selected, extracted, nothing generated.

        Raises whatever retrieval raises, InputError (field `reader`) for a reader that extracts nothing, and
        ModelError where the extraction is missing or fails: there is nothing else to tell then.
        """
        reader = question.reader
        if not isinstance(reader, SaneReader) or not reader.extract:
            raise InputError("reader", "Evidence needs the reader sane with extract: true.")
        run = _Run(question)
        pool = await self._pool(run, pool_size(reader))
        if not pool.candidates:
            run.note(NO_MATCH)
            return _evidence(run.end(pool, None, Generated("")))
        selection = await self._selected(run, pool, reader)
        work = await self._extraction(run, pool, selection, reader)
        if work is None:
            raise ModelError("There is no extract stage: evidence can't be had.")
        table = (await run.stage("extract", work)).table
        return _evidence(run.end(pool, table, Generated(""), selection.candidates))

    async def answer(self, question: Question) -> Answer:
        """The answer with its sources, evidence and trace.

        Raises whatever retrieval raises, ModelTimeoutError where the deadline passes before a pool is
        there, and InputError for a question beyond the model's window.
        """
        return await self._answer(_Run(question))

    async def answer_stream(self, question: Question) -> AsyncGenerator[StageTrace | str | Answer, None]:
        """The stages as they end, the text in pieces as it is generated, and last what `answer` returns.

        Raises as `answer` does. Closing it ends the work. The pieces joined are the answer's text unless the
        generation failed on its way.
        """

        async def answering(tell: Callable[[StageTrace | str], None]) -> Answer:
            return await self._answer(_Run(question, tell))

        async with contextlib.aclosing(as_told(answering)) as events:
            async for event in events:
                yield event

    async def _answer(self, run: _Run) -> Answer:
        pool = await self._pool(run, pool_size(run.question.reader), run.question.reader)
        question = run.question
        table: EvidenceTable | None = None
        selected: tuple[Candidate, ...] = ()
        generated = Generated("")
        if not pool.candidates:
            run.note(NO_MATCH)
        elif isinstance(question.reader, PlainReader):
            generated = await self._written(run, FromValues(pool, question.reader))
        else:
            selection = await self._selected(run, pool, question.reader)
            selected = selection.candidates
            if question.reader.extract:
                table = await self._extracted(run, pool, selection, question.reader)
            generated = await self._concluded(run, table, selection, question.reader)
        return run.end(pool, table, generated, selected)

    async def _pool(self, run: _Run, w: int, reader: PlainReader | SaneReader | None = None) -> Pool:
        """For the question as its retrieval wants it: from here on it is the one that is asked.

        With a `reader` of values the pool outlasts its budget, or the collection has no more.
        """
        if run.question.turns and run.question.retrieval.follow_up == "model":
            work: _Work[Rewritten] | None = None
            if rewrite := self._rewrite:
                work = partial(rewrite, run.question)
            rewritten = await run.attempt("rewrite", work, "the rule's question is searched for")
            if rewritten and rewritten.text:
                run.note(f"Asked is: {rewritten.text}")
                run.question = replace(run.question, text=rewritten.text, turns=())
        question = run.question
        budget = reader.budget_tokens if isinstance(reader, PlainReader) and reader.k is None else 0

        async def retrieved(_: float | None) -> Pool:
            pool, wanted = await self._retrieve(question, w), w
            while (
                wanted <= len(pool.candidates)
                and wanted < budget
                and _characters(pool) < budget * CHARACTERS_PER_TOKEN
            ):
                wanted *= 2
                pool = await self._retrieve(question, wanted)
            return pool

        return await run.stage("retrieve", retrieved)

    async def _selected(self, run: _Run, pool: Pool, reader: SaneReader) -> Selection:
        work: _Work[Selection] | None = None
        if select := self._select:
            work = partial(select, run.question.asked, pool, reader)
        selection = await run.attempt("select", work, "the retrieval order is kept")
        return selection or Selection(pool.candidates[: reader.k])

    async def _extracted(
        self, run: _Run, pool: Pool, selection: Selection, reader: SaneReader
    ) -> EvidenceTable | None:
        work = await self._extraction(run, pool, selection, reader)
        extraction = await run.attempt("extract", work, "there is no evidence table")
        return extraction.table if extraction else None

    async def _extraction(
        self, run: _Run, pool: Pool, selection: Selection, reader: SaneReader
    ) -> _Work[Extraction] | None:
        """What is still to be done, beside what is shown; None where the stage is missing."""
        chosen = selection.candidates
        around = await self._around(run, chosen, pool.generation, reader.neighbours)
        if extract := self._extract:
            return partial(extract, run.question.asked, chosen, reader, around)
        return None

    async def _around(
        self, run: _Run, chosen: Sequence[Candidate], generation: int, n: int
    ) -> tuple[Candidate, ...]:
        if not n:
            return ()
        work: _Work[Around] | None = None
        if beside := self._beside:
            fetch = partial(beside, run.question, chosen, generation, n)
            work = lambda _: fetch()  # noqa: E731 (the only stage that asks no model, and needs no time)
        around = await run.attempt("neighbours", work, "no neighbours are shown")
        return around.candidates if around else ()

    async def _concluded(
        self, run: _Run, table: EvidenceTable | None, selection: Selection, reader: SaneReader
    ) -> Generated:
        """The answer from the facts of the table, or what the reader wants where there are none.

        Deviation: facts without the date or the number that the question asks for are as good as none
        where raw units may be read; from them alone a model makes one up.
        """
        lacking = unmet(run.question.text, table.facts) if table and reader.no_evidence == "units" else None
        if table and table.facts and not lacking:
            return await self._written(run, FromTable(table, reader.citations))
        missing = "No evidence row is verified" if reader.extract else "Evidence is not extracted"
        if table and table.facts:
            missing = f"No verified evidence row states a {lacking}, which the question asks for"
        if reader.no_evidence == "abstain":
            run.note(f"{missing}: {'the documents do not answer' if table else 'nothing is answered'}.")
            return Generated(UNKNOWN if table else "")
        run.note(f"{missing}; the answer reads the source units.")
        return await self._written(run, FromUnits(selection.candidates, reader.budget_tokens))

    async def _written(self, run: _Run, reading: Reading) -> Generated:
        work: _Work[Generated] | None = None
        if (stream := self._stream) and (tell := run.tell):
            work = lambda left: stream(run.question.asked, reading, left, tell)  # noqa: E731
        elif generate := self._generate:
            work = partial(generate, run.question.asked, reading)
        return await run.attempt("generate", work, "the answer has no text") or Generated("")


def pool_size(reader: PlainReader | SaneReader) -> int:
    """How many candidates a reader needs: w, or more than its budget can hold.

    A reader of k candidates reads the first of a pool as wide as that of others: what is fused depends on how
    many records each leg was asked for.
    """
    if isinstance(reader, SaneReader):
        return reader.w
    return max(MIN_POOL, reader.k or reader.budget_tokens // TOKENS_PER_VALUE)


def _characters(pool: Pool) -> int:
    """Those of all values to be read, one that is found twice once."""
    return sum(map(len, {piece.text for piece in values(pool.candidates)}))


def _evidence(answer: Answer) -> Evidence:
    return Evidence(
        answer.question,
        answer.evidence,
        answer.sources,
        answer.selected,
        answer.generation,
        answer.trace,
        answer.notes,
        answer.partial,
    )


class _Run:
    """One question under way: its deadline, and what is to be told about it, in the end or as it comes."""

    def __init__(self, question: Question, tell: Callable[[StageTrace | str], None] | None = None) -> None:
        self.question = question
        self._text = question.text
        self.tell = tell
        self._clock = asyncio.get_running_loop().time
        self._deadline = None if question.timeout_s is None else self._clock() + question.timeout_s
        self._trace: list[StageTrace] = []
        self._notes: list[str] = []

    def note(self, sentence: str) -> None:
        """Tells something that belongs to no single stage."""
        self._notes.append(sentence)

    async def attempt(self, name: str, work: _Work[T] | None, instead: str) -> T | None:
        """The stage's result, or None where it is missing or down, and a note of what holds `instead`."""
        if work is None:
            self.note(f"There is no {name} stage: {instead}.")
            return None
        started = self._clock()
        try:
            return await self.stage(name, work)
        except ModelError as error:
            note = f"Stage {name} failed ({str(error).rstrip('.')}): {instead}."
            self._record(StageTrace(name, self._clock() - started, paid(error), (note,), failed=True))
            return None

    async def stage(self, name: str, work: _Work[T]) -> T:
        """Runs one stage within what is left of the deadline, which it is told.

        A cancellation from outside goes through: `asyncio.timeout_at` turns only its own into TimeoutError.
        """
        started = self._clock()
        left = None if self._deadline is None else self._deadline - started
        given_s = self.question.timeout_s or 0
        late = f"The {given_s:.3g} s of the question were over at stage {name}: raise timeout_s."
        if left is not None and left <= 0:
            raise ModelTimeoutError(late)
        limit = asyncio.timeout_at(self._deadline)
        try:
            async with limit:
                result = await work(left)
        except TimeoutError:
            raise ModelTimeoutError(late if limit.expired() else f"Stage {name} timed out.") from None
        usage = Usage() if isinstance(result, Pool) else result.usage
        self._record(StageTrace(name, self._clock() - started, usage, result.notes))
        return result

    def end(
        self,
        pool: Pool,
        table: EvidenceTable | None,
        generated: Generated,
        selected: Sequence[Candidate] = (),
    ) -> Answer:
        """The answer; its sources are those of the facts, or of the context where that was read."""
        context = generated.context
        facts = table.facts if table and not context else ()
        sources = merged(row.source for row in facts if row.source)
        return Answer(
            self._text,
            generated.text,
            context.sources if context else sources,
            table,
            context,
            pool.generation,
            tuple(self._trace),
            tuple(dict.fromkeys(self._notes)),
            tuple(Source.of(candidate.document, candidate.units) for candidate in selected),
            generated.citations,
            pool.partial,
            pool.candidates if self.question.traced else (),
        )

    def _record(self, trace: StageTrace) -> None:
        self._trace.append(trace)
        self._notes += trace.notes
        if self.tell:
            self.tell(trace)

"""Questions through retrieval and pipeline, several at once: what came of each one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mrag.collection import Collection
from mrag.errors import InputError, ModelError
from mrag.evaluation.gold import Gold, locate
from mrag.evaluation.kept_replies import Clock, KeepingModel, clocked, open_keeping_model
from mrag.evaluation.measures import Row
from mrag.evaluation.metrics import exact_match, f1
from mrag.evaluation.questions import GoldQuestion
from mrag.indexing.concurrency import all_of
from mrag.models.encoder import Encoder
from mrag.models.opening import open_encoder, opened_by_stage
from mrag.query.local import encoding, local_pipeline
from mrag.query.outcome import abstained, failed
from mrag.query.pipeline import Pipeline
from mrag.query.question import question_for
from mrag.query.retrieve import Retriever
from mrag.schema import Answer, Candidate, Source, Usage
from mrag.settings import SaneReader, Settings, StageName

CUTOFFS = (1, 5, 10, 20)
RETRIEVALS_AT_ONCE = 4

Progress = Callable[[], None]


@dataclass(frozen=True)
class Evaluation:
    """Rows in the order of the questions, all of one generation; `seconds` without the loading of models."""

    generation: int
    rows: tuple[Row, ...]
    seconds: float


async def evaluate(
    settings: Settings,
    questions: Sequence[GoldQuestion],
    cutoffs: Sequence[int] = CUTOFFS,
    retrieval_only: bool = False,
    progress: Progress | None = None,
    replies: Path | None = None,
) -> Evaluation:
    """Asks every question as the settings would, `retrieval_only` without a language model.

    `progress` is called after each question; replies are kept in the folder `replies`, and taken from it.
    What fails on a single question is in its row. Raises NotFoundError and CollectionError for the
    collection, ModelError where no model opens.
    """
    encoder = open_encoder(settings.encoder)
    if retrieval_only:
        return await measured(settings, questions, encoder, None, cutoffs, progress)
    async with opened_by_stage(settings, partial(open_keeping_model, folder=replies)) as models:
        return await measured(settings, questions, encoder, models, cutoffs, progress)


async def measured(
    settings: Settings,
    questions: Sequence[GoldQuestion],
    encoder: Encoder,
    models: Mapping[StageName, KeepingModel] | None,
    cutoffs: Sequence[int] = CUTOFFS,
    progress: Progress | None = None,
    at_once: int | None = None,
) -> Evaluation:
    """The same with what is open already; without `models` retrieval alone is measured.

    `at_once` is the number of questions under way, by default what the settings of all its models allow.
    """
    fingerprint = await asyncio.to_thread(lambda: encoder.fingerprint)
    collection = await asyncio.to_thread(
        lambda: Collection.at(settings.collection, encoder_fingerprint=fingerprint, dense=settings.dense)
    )
    with closing(collection):
        if models:
            pipeline = local_pipeline(settings, models, encoder, lambda _: collection)
        else:
            pipeline = Pipeline(Retriever(lambda _: collection, encoding(encoder)).retrieve, None, None, None)
        bounds = [one.max_concurrency for one in settings.answering_models] if models else []
        usual = min(bounds, default=RETRIEVALS_AT_ONCE)
        measuring = _Measuring(settings, pipeline, collection, sorted(cutoffs), models is not None)
        started = time.monotonic()
        rows = await measuring.all(questions, at_once or usual, progress)
        for model in (models or {}).values():
            if model.refused:
                raise model.refused
        return Evaluation(collection.manifest.generation, tuple(rows), time.monotonic() - started)


@dataclass
class _Run:
    """What came of one question, as far as it went.

    `unselected` are the first k of the pool that SANE selects from.
    """

    candidates: tuple[Candidate, ...] = ()
    unselected: tuple[Candidate, ...] = ()
    answer: Answer | None = None
    error: str = ""


class _Measuring:
    """One collection, one pipeline, and what is measured of them."""

    def __init__(
        self,
        settings: Settings,
        pipeline: Pipeline,
        collection: Collection,
        cutoffs: Sequence[int],
        answering: bool,
    ) -> None:
        self._settings = settings
        self._pipeline = pipeline
        self._collection = collection
        self._cutoffs = cutoffs
        self._answering = answering

    async def all(
        self, questions: Sequence[GoldQuestion], at_once: int, progress: Progress | None
    ) -> list[Row]:
        turn = asyncio.Semaphore(at_once)

        async def one(question: GoldQuestion) -> Row:
            async with turn:
                row = await self._row(question)
            if progress:
                progress()
            return row

        return await all_of(map(one, questions))

    async def _row(self, question: GoldQuestion) -> Row:
        run = _Run()
        with clocked() as clock:
            try:
                await self._ask(question.question, run)
            except (InputError, ModelError) as failure:
                run.error = str(failure)
        gold = await asyncio.to_thread(
            locate, question, self._collection, self._collection.manifest.duplicates
        )
        return Row(
            question.id,
            question.question,
            question.answers,
            recall=gold.recall(run.candidates, self._cutoffs),
            found=tuple(candidate.document.id for candidate in run.candidates),
            missing=gold.missing,
            error=run.error,
            **(self._answered(question, gold, run) | _timed(run.answer, clock) if self._answering else {}),
        )

    async def _ask(self, text: str, run: _Run) -> None:
        question = question_for(self._settings, text)
        run.candidates = (await self._pipeline.retrieve(question, self._cutoffs[-1])).candidates
        if not self._answering:
            return
        if isinstance(question.reader, SaneReader):
            pool = await self._pipeline.retrieve(question, question.reader.w)
            run.unselected = pool.candidates[: question.reader.k]
        run.answer = await self._pipeline.answer(question)

    def _answered(self, question: GoldQuestion, gold: Gold, run: _Run) -> dict[str, Any]:
        answer = run.answer
        answers = () if question.unanswerable else question.answers
        text = answer.text if answer else ""
        selects = isinstance(self._settings.method.reader, SaneReader)
        in_order = [Source.of(candidate.document, candidate.units) for candidate in run.unselected]
        return {
            "answer": text,
            "exact_match": float(exact_match(text, answers)) if answers else None,
            "f1": f1(text, answers) if answers else None,
            "abstained": answer is not None and abstained(answer) and not failed(answer),
            "unanswerable": question.unanswerable,
            "read": gold.held(_read(answer)),
            "unselected": gold.held(in_order) if selects else None,
            "usage": sum((stage.usage for stage in answer.trace), Usage()) if answer else Usage(),
            "notes": answer.notes if answer else (),
            **_evidence(answer),
        }


def _read(answer: Answer | None) -> Sequence[Source]:
    """Where the answer was read from: the selected candidates, or what stood in the context."""
    if answer is None:
        return ()
    return answer.selected or (answer.context.sources if answer.context else ())


def _timed(answer: Answer | None, clock: Clock) -> dict[str, float | None]:
    passed = sum(stage.seconds for stage in answer.trace) if answer and not clock.kept else None
    return {"seconds": clock.seconds, "stage_seconds": passed}


def _evidence(answer: Answer | None) -> dict[str, int]:
    table = answer.evidence if answer else None
    return {"evidence_rows": len(table.rows), "facts": len(table.facts)} if table else {}

"""Questions through retrieval and pipeline, several at once: what came of each one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from mrag.collection import Collection
from mrag.errors import InputError, ModelError
from mrag.evaluation.gold import locate
from mrag.evaluation.metrics import exact_match, f1
from mrag.evaluation.questions import GoldQuestion
from mrag.indexing.concurrency import all_of
from mrag.models.opening import open_encoder, open_language_model
from mrag.query.local import encoding, local_pipeline
from mrag.query.pipeline import Pipeline
from mrag.query.question import question_for
from mrag.query.retrieve import Retriever
from mrag.schema import Answer, Candidate, Usage
from mrag.settings import Settings

CUTOFFS = (1, 5, 10, 20)
RETRIEVALS_AT_ONCE = 4

Progress = Callable[[], None]


@dataclass(frozen=True)
class Row:
    """One question, measured. A measure is None where the question has no label for it, or was not asked.

    `recall` is that of `documents` and of `passages`, by k: over the candidates that a reader of k reads. A
    question that failed has its `error`, and 0 for what it was to be measured by. `missing` names gold that
    the collection does not hold; `found` has the documents of the candidates, best first.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    recall: Mapping[str, Mapping[int, float]]
    found: tuple[str, ...] = ()
    answer: str | None = None
    exact_match: float | None = None
    f1: float | None = None
    usage: Usage | None = None
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    error: str = ""


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
) -> Evaluation:
    """Asks every question as the settings would, `retrieval_only` without a language model.

    `progress` is called after each question. What fails on a single question is in its row. Raises
    NotFoundError and CollectionError for the collection, ModelError where no model opens.
    """
    encoder = open_encoder(settings.encoder)
    place = settings.collection
    fingerprint = await asyncio.to_thread(lambda: encoder.fingerprint)
    collection = Collection.open(
        place.root, place.name, encoder_fingerprint=fingerprint, dense=settings.dense
    )
    async with AsyncExitStack() as stack:
        stack.callback(collection.close)
        if retrieval_only:
            pipeline = Pipeline(Retriever(lambda _: collection, encoding(encoder)).retrieve, None, None, None)
        else:
            model = await open_language_model(settings.language_model)
            stack.push_async_callback(model.close)
            pipeline = local_pipeline(settings, model, encoder, lambda _: collection)
        measuring = _Measuring(settings, pipeline, collection, sorted(cutoffs), not retrieval_only)
        started = time.monotonic()
        rows = await measuring.all(questions, progress)
        return Evaluation(collection.manifest.generation, tuple(rows), time.monotonic() - started)


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
        at_once = settings.language_model.max_concurrency if answering else RETRIEVALS_AT_ONCE
        self._turn = asyncio.Semaphore(at_once)

    async def all(self, questions: Sequence[GoldQuestion], progress: Progress | None) -> list[Row]:
        async def one(question: GoldQuestion) -> Row:
            async with self._turn:
                row = await self._row(question)
            if progress:
                progress()
            return row

        return await all_of(map(one, questions))

    async def _row(self, question: GoldQuestion) -> Row:
        candidates: tuple[Candidate, ...] = ()
        answer, error = None, ""
        try:
            asked = question_for(self._settings, question.question)
            candidates = (await self._pipeline.retrieve(asked, self._cutoffs[-1])).candidates
            if self._answering:
                answer = await self._pipeline.answer(asked)
        except (InputError, ModelError) as failure:
            error = str(failure)
        gold = await asyncio.to_thread(
            locate, question, self._collection, self._collection.manifest.duplicates
        )
        return Row(
            question.id,
            question.question,
            question.answers,
            recall=gold.recall(candidates, self._cutoffs),
            found=tuple(candidate.document.id for candidate in candidates),
            **(_reading(question, answer) if self._answering else {}),
            missing=gold.missing,
            error=error,
        )


def _reading(question: GoldQuestion, answer: Answer | None) -> dict[str, Any]:
    text = answer.text if answer else ""
    return {
        "answer": text,
        "exact_match": float(exact_match(text, question.answers)) if question.answers else None,
        "f1": f1(text, question.answers) if question.answers else None,
        "usage": sum((stage.usage for stage in answer.trace), Usage()) if answer else Usage(),
        "notes": answer.notes if answer else (),
    }

"""An experiment is run: case by case, with one encoder and one engine for all that want the same."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

from mrag.collection import read_manifest
from mrag.errors import NotFoundError
from mrag.evaluation.evaluate import Evaluation, Progress, measured
from mrag.evaluation.experiment import Case
from mrag.evaluation.kept_replies import KeepingModel, open_keeping_model
from mrag.indexing.report import Report
from mrag.indexing.run import index_folder
from mrag.models.encoder import Encoder
from mrag.models.opening import open_encoder
from mrag.settings import EncoderSettings, LanguageModelSettings, Settings, StageName

Told = Callable[[Case, Report], None]


def missing(cases: Sequence[Case]) -> list[Case]:
    """For each collection that is not there the first case that searches most of it."""
    found: dict[tuple[Path, str], Case] = {}
    for case in sorted(cases, key=lambda case: case.settings.method.retrieval.name == "keys"):
        found.setdefault((case.settings.collection.root, case.settings.collection.name), case)
    return [case for place, case in found.items() if read_manifest(*place) is None]


async def index_missing(cases: Sequence[Case], told: Told) -> None:
    """Makes the collections that are not there, of the documents that their set names.

    Raises NotFoundError where it names none, and whatever indexing raises.
    """
    absent = missing(cases)
    if unknown := [case for case in absent if case.documents is None]:
        raise NotFoundError(
            "documents", f"Set {unknown[0].set} names no documents to index: give their file or folder."
        )
    for case in absent:
        with _folder(case.documents) as folder:
            told(case, await index_folder(case.settings, folder))


@contextmanager
def _folder(documents: Path | None) -> Iterator[Path]:
    """A folder that holds the documents and nothing else."""
    if documents is None or not documents.exists():
        raise NotFoundError("documents", f"There is no {documents}: give the folder of the data.")
    if documents.is_dir():
        yield documents
        return
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(documents, folder)
        yield Path(folder)


async def compare(
    cases: Sequence[Case],
    cutoffs: Sequence[int],
    replies: Path | None = None,
    retrieval_only: bool = False,
    progress: Progress | None = None,
    at_once: int | None = None,
) -> list[Evaluation]:
    """What came of each case, in their order; replies are kept in the folder `replies`, and taken from it.

    `progress` is called after each question. Raises NotFoundError that names the collections that are not
    there, CollectionError, and ModelError where a model does not open.
    """
    if absent := missing(cases):
        names = ", ".join(case.settings.collection.name for case in absent)
        raise NotFoundError("collection", f"These collections are not there: {names}. Index them first.")
    models = _Models(replies)
    try:
        return [
            await measured(
                case.settings,
                case.questions,
                models.encoder(case.settings.encoder),
                None if retrieval_only else await models.of_stages(case.settings),
                cutoffs,
                progress,
                at_once,
            )
            for case in cases
        ]
    finally:
        await models.close()


class _Models:
    """Those of the case under way, which stay as long as the next one wants the same."""

    def __init__(self, replies: Path | None) -> None:
        self._replies = replies
        self._encoder: tuple[EncoderSettings, Encoder] | None = None
        self._opened: list[tuple[LanguageModelSettings, KeepingModel]] = []

    def encoder(self, settings: EncoderSettings) -> Encoder:
        if self._encoder is None or self._encoder[0] != settings:
            self._encoder = settings, open_encoder(settings)
        return self._encoder[1]

    async def of_stages(self, settings: Settings) -> dict[StageName, KeepingModel]:
        """The model of each stage; those that this case does not ask are closed before others open."""
        await self.close(settings.answering_models)
        return {stage: await self._model(settings.model_of(stage)) for stage in get_args(StageName)}

    async def _model(self, settings: LanguageModelSettings) -> KeepingModel:
        for known, model in self._opened:
            if known == settings:
                return model
        model = await open_keeping_model(settings, self._replies)
        self._opened.append((settings, model))
        return model

    async def close(self, but: Sequence[LanguageModelSettings] = ()) -> None:
        """Closes all `but` those of these settings."""
        for known, model in [one for one in self._opened if one[0] not in but]:
            self._opened.remove((known, model))
            await model.close()

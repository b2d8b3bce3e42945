"""An experiment is run: case by case, with one encoder and one engine for all that want the same."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from mrag.collection import read_manifest
from mrag.errors import NotFoundError
from mrag.evaluation.evaluate import Evaluation, Progress, measured
from mrag.evaluation.experiment import Case
from mrag.evaluation.kept_replies import open_keeping_model
from mrag.indexing.report import Report
from mrag.indexing.run import index_folder
from mrag.models.encoder import Encoder
from mrag.models.opening import OpenedModels, open_encoder
from mrag.settings import EncoderSettings

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
    encoder, models = _Encoders(), OpenedModels(partial(open_keeping_model, folder=replies))
    try:
        return [
            await measured(
                case.settings,
                case.questions,
                encoder(case.settings.encoder),
                None if retrieval_only else await models.of_stages(case.settings),
                cutoffs,
                progress,
                at_once,
            )
            for case in cases
        ]
    finally:
        await models.close()


class _Encoders:
    """That of the case under way, which stays as long as the next one wants the same."""

    def __init__(self) -> None:
        self._opened: tuple[EncoderSettings, Encoder] | None = None

    def __call__(self, settings: EncoderSettings) -> Encoder:
        if self._opened is None or self._opened[0] != settings:
            self._opened = settings, open_encoder(settings)
        return self._opened[1]

"""The stage that chooses k of the w candidates: in the form that the reader asks for, or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mrag.errors import ModelError, NoLogprobsError
from mrag.models.language_model import LanguageModel, paid
from mrag.query.margin import margin
from mrag.query.select_each import EachSelection
from mrag.query.select_labels import LabelSelection
from mrag.query.select_likelihood import LikelihoodSelection
from mrag.query.select_listed import ListedSelection
from mrag.query.selection import Form, Ranking, countdown
from mrag.schema import Candidate, Pool, Usage
from mrag.settings import SaneReader


@dataclass(frozen=True)
class Selection:
    """The chosen candidates, the best first, and what was noticed."""

    candidates: tuple[Candidate, ...]
    usage: Usage = field(default_factory=Usage)
    notes: tuple[str, ...] = ()


class Selector:
    """Asks the model which candidates to read."""

    def __init__(self, model: LanguageModel) -> None:
        self._forms: Mapping[str, Form] = {
            "listed": ListedSelection(model),
            "labels": LabelSelection(model),
            "each": EachSelection(model),
            "likelihood": LikelihoodSelection(model),
        }

    async def select(
        self, question: str, pool: Pool, reader: SaneReader, timeout_s: float | None = None
    ) -> Selection:
        """k candidates of the pool, or all where it has no more.

        Nothing is asked where there is nothing to choose, selection is `off`, or the retrieval is sure by
        the reader's `skip_margin`. Where the model chooses fewer, or fails, the others are the best of the
        pool that are left. Raises InputError (field `question`) for a question that leaves no room for a
        candidate.
        """
        candidates, k = pool.candidates, reader.k
        if len(candidates) <= k or reader.select == "off":
            return Selection(candidates[:k])
        if reader.skip_margin is not None and 0 < (sure := margin(candidates, k)) >= reader.skip_margin:
            note = f"Selection was skipped: all searches put the same {k} candidates first, by {sure:.0%}."
            return Selection(candidates[:k], notes=(note,))
        ranking = await self._ranked(reader.select, question, candidates, reader, timeout_s)
        return Selection(_filled(candidates, ranking.ranks, k), ranking.usage, ranking.notes)

    async def _ranked(
        self,
        form: str,
        question: str,
        candidates: Sequence[Candidate],
        reader: SaneReader,
        timeout_s: float | None,
    ) -> Ranking:
        """In this form, or listed where the engine can't weigh labels; nothing where the model fails."""
        left = countdown(timeout_s)
        try:
            return await self._forms[form].rank(question, candidates, reader, timeout_s)
        except ModelError as error:
            unable = isinstance(error, NoLogprobsError) and form != "listed"
            instead = "candidates were listed instead" if unable else "the retrieval order was kept"
            reason = str(error).rstrip(".")
            failed = Ranking((), paid(error), (f"Selection by {form} failed ({reason}); {instead}.",))
        if not unable:
            return failed
        listed = await self._ranked("listed", question, candidates, reader, left())
        return Ranking(listed.ranks, failed.usage + listed.usage, failed.notes + listed.notes)


def _filled(candidates: Sequence[Candidate], ranks: Sequence[int], k: int) -> tuple[Candidate, ...]:
    """k of the candidates: those of the ranks, then the best that are left."""
    wanted = dict.fromkeys([*ranks, *range(1, len(candidates) + 1)])
    return tuple(candidates[rank - 1] for rank in list(wanted)[:k])

"""Selection by how likely the question is, once the model has read the candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mrag.models.language_model import LanguageModel, Message, Request
from mrag.models.prompt import one_line, render
from mrag.query.describe import describe, parts_shown
from mrag.query.one_by_one import Judgement, judged
from mrag.query.selection import Ranking
from mrag.schema import Candidate
from mrag.settings import SaneReader


class LikelihoodSelection:
    """A `Form`: asked for a question about a candidate, how likely would the model ask this one?

    The log-probability of the question orders the candidates, fused with the retrieval's order: query
    likelihood, as in "Improving Passage Retrieval with Zero-Shot Question Generation" (Sachan et al., 2022).

    Deviation: SANE makes one call for selection, this makes w and generates nothing. It asks no judgement of
    the model, only what every language model can do: a small one that can neither list nor say yes or no
    still finds a question likelier after the text that answers it.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    async def rank(
        self, question: str, candidates: Sequence[Candidate], reader: SaneReader, timeout_s: float | None
    ) -> Ranking:
        """All candidates."""
        asked = one_line(question)

        def prompts(texts: Sequence[str]) -> list[tuple[Message, ...]]:
            return [_messages(text, reader) for text in texts]

        async def judge(messages: tuple[Message, ...], left: float | None) -> Judgement:
            found = await self._model.likelihood(Request(messages, 1, "select", timeout_s=left), asked)
            return Judgement(found.logprob, found.usage)

        reply_tokens = self._model.count_tokens(asked) + 1
        described = describe(self._model, question, candidates, reader.synopsis, prompts, reply_tokens)
        ranking = await judged(judge, described.prompts, candidates, reader.rank_weight, timeout_s)
        return replace(ranking, notes=ranking.notes + described.notes)


def _messages(text: str, reader: SaneReader) -> tuple[Message, ...]:
    return render("select-likelihood", shown=parts_shown(reader.synopsis), candidate=text)

"""Selection by a question about each candidate: does it help, yes or no?"""

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

YES, NO = "Yes", "No"


class EachSelection:
    """A `Form`: how much likelier a yes is than a no orders the candidates, fused with the retrieval's order.

    Deviation: SANE makes one call for selection, this makes w, of one token each. A small model that sees
    one candidate can't follow its position among others, which is what it does with a list.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    async def rank(
        self, question: str, candidates: Sequence[Candidate], reader: SaneReader, timeout_s: float | None
    ) -> Ranking:
        """All candidates."""

        def prompts(texts: Sequence[str]) -> list[tuple[Message, ...]]:
            return [_messages(question, text, reader) for text in texts]

        described = describe(self._model, question, candidates, reader.synopsis, prompts, reply_tokens=1)
        ranking = await judged(self._judge, described.prompts, candidates, reader.rank_weight, timeout_s)
        return replace(ranking, notes=ranking.notes + described.notes)

    async def _judge(self, messages: tuple[Message, ...], timeout_s: float | None) -> Judgement:
        request = Request(messages, 1, "select", timeout_s=timeout_s)
        choice = await self._model.choose(request, (YES, NO))
        return Judgement(choice.logprobs[YES] - choice.logprobs[NO], choice.usage)


def _messages(question: str, text: str, reader: SaneReader) -> tuple[Message, ...]:
    return render(
        "select-each", shown=parts_shown(reader.synopsis), candidate=text, question=one_line(question)
    )

"""Selection by a question about each candidate: does it help, yes or no?

Question and instructions stand before the candidate, so that the w prompts of a question are the same up
to there: an engine with a prefix cache reads that part once, in whole blocks (vLLM's are 16 tokens on a GPU,
128 without one). The first request goes ahead to fill it, and an engine that gives no log-probabilities costs
one request and not w.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from mrag.errors import ModelError, NoLogprobsError
from mrag.models.language_model import Choice, LanguageModel, Message, Request, paid
from mrag.models.prompt import one_line, render
from mrag.query.about import title_and_section
from mrag.query.describe import describe, parts_shown
from mrag.query.rank_fusion import fused
from mrag.query.selection import Ranking, countdown
from mrag.schema import Candidate, Usage
from mrag.settings import SaneReader

YES, NO = "Yes", "No"
MOST_NAMED = 3


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
        """All candidates; a request that fails costs its candidate the model's opinion, and no more."""

        def prompts(texts: Sequence[str]) -> list[tuple[Message, ...]]:
            return [_messages(question, text, reader) for text in texts]

        described = describe(self._model, question, candidates, reader.synopsis, prompts, reply_tokens=1)
        answers = await self._ask(described.prompts, timeout_s)
        scores = {rank: _score(one) for rank, one in enumerate(answers, 1) if isinstance(one, Choice)}
        failed = {rank: one for rank, one in enumerate(answers, 1) if isinstance(one, ModelError)}
        usage = sum((one.usage if isinstance(one, Choice) else paid(one) for one in answers), Usage())
        notes = (f"Selection made {len(answers)} requests, one a candidate.", *described.notes)
        return Ranking(
            fused(scores, len(candidates), reader.rank_weight), usage, notes + _missing(failed, candidates)
        )

    async def _ask(
        self, prompts: Sequence[tuple[Message, ...]], timeout_s: float | None
    ) -> list[Choice | ModelError]:
        """In the order of the prompts; raises NoLogprobsError where the first one meets it."""
        left = countdown(timeout_s)
        first = await self._judge(prompts[0], timeout_s)
        if isinstance(first, NoLogprobsError):
            raise first
        return [first, *await asyncio.gather(*(self._judge(prompt, left()) for prompt in prompts[1:]))]

    async def _judge(self, messages: tuple[Message, ...], timeout_s: float | None) -> Choice | ModelError:
        try:
            return await self._model.choose(Request(messages, 1, "select", timeout_s=timeout_s), (YES, NO))
        except ModelError as error:
            return error


def _messages(question: str, text: str, reader: SaneReader) -> tuple[Message, ...]:
    return render(
        "select-each", shown=parts_shown(reader.synopsis), candidate=text, question=one_line(question)
    )


def _score(choice: Choice) -> float:
    return choice.logprobs[YES] - choice.logprobs[NO]


def _missing(failed: Mapping[int, ModelError], candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """A note that names the candidates without a score, and the first reason."""
    if not failed:
        return ()
    named = [
        f"{rank} ({title_and_section(candidates[rank - 1].document, ())[0]})"
        for rank in list(failed)[:MOST_NAMED]
    ]
    more = [f"{len(failed) - MOST_NAMED} more"] if len(failed) > MOST_NAMED else []
    reason = str(next(iter(failed.values()))).rstrip(".")
    return (
        f"Selection has no score of candidate {', '.join(named + more)} ({reason}): their rank was kept.",
    )

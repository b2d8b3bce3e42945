"""Candidates judged one by one: w requests that give a score each, fused with the retrieval's order.

What is the same in all of a question's prompts stands before the candidate: an engine with a prefix cache
reads it once, in whole blocks (vLLM's are 16 tokens on a GPU), unless it weighs every token of its prompts.
The first request goes ahead to fill the cache, so that an engine that gives no log-probabilities costs one
request and not w.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from mrag.errors import ModelError, NoLogprobsError
from mrag.models.language_model import Message, paid
from mrag.query.about import title_and_section
from mrag.query.rank_fusion import fused
from mrag.query.selection import Ranking, countdown
from mrag.schema import Candidate, Usage

MOST_NAMED = 3


@dataclass(frozen=True)
class Judgement:
    """What the model thinks of a candidate: more is better."""

    score: float
    usage: Usage


Judge = Callable[[tuple[Message, ...], float | None], Awaitable[Judgement]]


async def judged(
    judge: Judge,
    prompts: Sequence[tuple[Message, ...]],
    candidates: Sequence[Candidate],
    rank_weight: float,
    timeout_s: float | None,
) -> Ranking:
    """All candidates, of which the first have a prompt each.

    A request that fails costs its candidate the model's opinion, and no more. Raises NoLogprobsError.
    """
    answers = await _answers(judge, prompts, timeout_s)
    scores = {rank: one.score for rank, one in enumerate(answers, 1) if isinstance(one, Judgement)}
    failed = {rank: one for rank, one in enumerate(answers, 1) if isinstance(one, ModelError)}
    usage = sum((one.usage if isinstance(one, Judgement) else paid(one) for one in answers), Usage())
    notes = (f"Selection made {len(answers)} requests, one a candidate.", *_missing(failed, candidates))
    return Ranking(fused(scores, len(candidates), rank_weight), usage, notes)


async def _answers(
    judge: Judge, prompts: Sequence[tuple[Message, ...]], timeout_s: float | None
) -> list[Judgement | ModelError]:
    """In the order of the prompts; raises NoLogprobsError where the first one meets it."""
    left = countdown(timeout_s)

    async def one(messages: tuple[Message, ...], seconds: float | None) -> Judgement | ModelError:
        try:
            return await judge(messages, seconds)
        except ModelError as error:
            return error

    first = await one(prompts[0], timeout_s)
    if isinstance(first, NoLogprobsError):
        raise first
    return [first, *await asyncio.gather(*(one(prompt, left()) for prompt in prompts[1:]))]


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

"""Selection by a single token: the letters of the candidates, as likely as the model finds them."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase

from mrag.models.language_model import LanguageModel, Message, Request
from mrag.models.prompt import one_line, render
from mrag.query.describe import describe, parts_shown
from mrag.query.rank_fusion import fused
from mrag.query.selection import Ranking
from mrag.schema import Candidate
from mrag.settings import SaneReader


class LabelSelection:
    """A `Form`: which letter the model would say first is its order, fused with the retrieval's.

    Deviation: eq. 8 lists k candidates; small models list the first that they see, whatever they say. A
    letter's probability orders all of them, for one token. Candidates beyond the alphabet stay behind it.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    async def rank(
        self, question: str, candidates: Sequence[Candidate], reader: SaneReader, timeout_s: float | None
    ) -> Ranking:
        """All candidates."""

        def prompts(texts: Sequence[str]) -> list[tuple[Message, ...]]:
            return [_messages(question, texts, reader)]

        lettered = candidates[: len(ascii_uppercase)]
        described = describe(self._model, question, lettered, reader.synopsis, prompts, reply_tokens=1)
        (messages,) = described.prompts
        letters = ascii_uppercase[: described.shown]
        choice = await self._model.choose(Request(messages, 1, "select", timeout_s=timeout_s), letters)
        scores = {rank: choice.logprobs[letter] for rank, letter in enumerate(letters, 1)}
        ranks = fused(scores, len(candidates), reader.rank_weight)
        return Ranking(ranks, choice.usage, _beyond(len(candidates)) + described.notes)


def _messages(question: str, texts: Sequence[str], reader: SaneReader) -> tuple[Message, ...]:
    lettered = zip(ascii_uppercase, texts, strict=False)
    return render(
        "select-labels",
        shown=parts_shown(reader.synopsis),
        candidates="\n".join(f"[{letter}] {text}" for letter, text in lettered),
        question=one_line(question),
    )


def _beyond(w: int) -> tuple[str, ...]:
    letters = len(ascii_uppercase)
    note = f"Selection has letters for {letters} candidates; the {w - letters} others kept their rank."
    return (note,) if w > letters else ()

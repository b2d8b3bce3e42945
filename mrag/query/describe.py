"""What a selecting prompt shows of a pool: as much of each candidate as the model's window takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mrag.errors import InputError
from mrag.models.language_model import LanguageModel, Message
from mrag.models.prompt import room
from mrag.query.synopsis import synopses
from mrag.schema import Candidate
from mrag.settings import SynopsisSettings

# Square brackets mark the candidates' labels: no document writes any.
_ROUND = str.maketrans("[]", "()")
SHARES = (1.0, 0.5, 0.25, 0.12)


Prompts = Callable[[Sequence[str]], Sequence[tuple[Message, ...]]]


@dataclass(frozen=True)
class Described:
    """Prompts that fit, how many candidates they show (the first of the pool), and what was left out."""

    prompts: tuple[tuple[Message, ...], ...]
    shown: int
    notes: tuple[str, ...] = ()


def describe(
    model: LanguageModel,
    question: str,
    candidates: Sequence[Candidate],
    settings: SynopsisSettings,
    prompts: Prompts,
    reply_tokens: int,
) -> Described:
    """The `prompts` of the longest descriptions with which all of them fit, then of as many candidates as do.

    Raises InputError (field `question`) where not even the first candidate fits.
    """
    texts: tuple[str, ...] = ()
    for share in SHARES:
        described = synopses(question, candidates, model.count_tokens, settings, share)
        texts = tuple(synopsis.shown.translate(_ROUND) for synopsis in described)
        if fitting := _fitting(model, prompts(texts), reply_tokens):
            shortened = f"Synopses were shortened to {share:.0%} to fit the model's window."
            return Described(fitting, len(texts), () if share == 1 else (shortened,))
    while texts := texts[: -(len(texts) // 4 or 1)]:
        if fitting := _fitting(model, prompts(texts), reply_tokens):
            fewer = f"Only the first {len(texts)} candidates fit the model's window."
            return Described(fitting, len(texts), (fewer,))
    raise InputError("question", "The question is too long for the model's window: shorten it.")


def _fitting(
    model: LanguageModel, prompts: Sequence[tuple[Message, ...]], reply_tokens: int
) -> tuple[tuple[Message, ...], ...]:
    """The prompts, or none where one of them does not fit."""
    return tuple(prompts) if all(room(model, prompt, reply_tokens) >= 0 for prompt in prompts) else ()


def parts_shown(settings: SynopsisSettings) -> str:
    """What a prompt says that it shows: `its metadata, its keywords and an excerpt`."""
    if settings.full_text_tokens:
        return "its text"
    parts = (
        (settings.metadata_tokens, "its metadata"),
        (settings.keywords_tokens, "its keywords"),
        (settings.excerpt_tokens, "an excerpt"),
    )
    *first, last = [name for tokens, name in parts if tokens]
    return f"{', '.join(first)} and {last}" if first else last

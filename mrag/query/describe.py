"""What a selecting prompt shows of a pool: as much of each candidate as the model's window takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mrag.errors import InputError
from mrag.query.fitting import CountTokens
from mrag.query.synopsis import synopses
from mrag.schema import Candidate
from mrag.settings import SynopsisSettings

SHARES = (1.0, 0.5, 0.25, 0.12)


@dataclass(frozen=True)
class Described:
    """Descriptions of the first candidates of a pool, in order, and what was left out of them."""

    texts: tuple[str, ...]
    notes: tuple[str, ...] = ()


def describe(
    question: str,
    candidates: Sequence[Candidate],
    count: CountTokens,
    settings: SynopsisSettings,
    fits: Callable[[Sequence[str]], bool],
) -> Described:
    """The longest descriptions with which a prompt `fits`, then those of as many candidates as do.

    Raises InputError (field `question`) where not even the first candidate fits.
    """
    texts: tuple[str, ...] = ()
    for share in SHARES:
        texts = tuple(synopsis.shown for synopsis in synopses(question, candidates, count, settings, share))
        if fits(texts):
            shortened = f"Synopses were shortened to {share:.0%} to fit the model's window."
            return Described(texts, () if share == 1 else (shortened,))
    while texts := texts[: -(len(texts) // 4 or 1)]:
        if fits(texts):
            return Described(texts, (f"Only the first {len(texts)} candidates fit the model's window.",))
    raise InputError("question", "The question is too long for the model's window: shorten it.")


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

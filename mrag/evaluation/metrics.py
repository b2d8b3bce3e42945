"""Measures of one question, and what they say of all that could have been asked."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_RESAMPLES = 10_000
_DRAWN_AT_ONCE = 1 << 20
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


# --------------------------------------------------------------------------- answers, as SQuAD compares them


def normalised(text: str) -> str:
    """Lower case, no ASCII punctuation, no articles, single blanks (Rajpurkar et al. 2016).

    >>> normalised("The  Eiffel-Tower, 1889.")
    'eiffeltower 1889'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(text: str, answers: Iterable[str]) -> bool:
    """Whether the text is one of the answers, both normalised."""
    return normalised(text) in {normalised(answer) for answer in answers}


def f1(text: str, answers: Iterable[str]) -> float:
    """The best harmonic mean of token precision and recall over the answers, in [0, 1]."""
    return max((_f1(normalised(text).split(), normalised(answer).split()) for answer in answers), default=0.0)


def _f1(given: list[str], wanted: list[str]) -> float:
    shared = sum((Counter(given) & Counter(wanted)).values())
    if not shared:
        return float(given == wanted)
    precision, recall = shared / len(given), shared / len(wanted)
    return 2 * precision * recall / (precision + recall)


def contains_answer(text: str, answers: Iterable[str]) -> bool:
    """Whether an answer stands in the text as whole words, both normalised: right, if perhaps wordy."""
    padded = f" {normalised(text)} "
    return any(f" {wanted} " in padded for wanted in map(normalised, answers) if wanted)


# --------------------------------------------------------------------------- many questions


@dataclass(frozen=True)
class Part:
    """What one question adds to a measure: an amount, of so much. The measure is the quotient of the sums.

    A question that the measure does not concern adds nothing, `Part(0, 0)`; a plain mean has `of` 1 for all.
    """

    amount: float
    of: float = 1.0


@dataclass(frozen=True)
class Interval:
    """A measure over `count` questions, and the bounds between which it lies with a probability of 95 %."""

    mean: float
    low: float
    high: float
    count: int


def interval(values: Sequence[float], seed: int = 0) -> Interval:
    """The mean and its percentile bootstrap interval (Efron 1979), the same one for the same seed.

    Raises ValueError for no values.
    """
    return ratio_interval([Part(value) for value in values], seed)


def ratio_interval(parts: Sequence[Part], seed: int = 0) -> Interval:
    """The same for the quotient of the sums, over the questions that the measure concerns."""
    return _interval(_sample([part for part in parts if part.of]), _ratio, seed)


def paired_interval(ours: Sequence[Part], base: Sequence[Part], seed: int = 0) -> Interval:
    """Ours minus the base's, with the same questions drawn for both, which stand at the same places.

    A question counts where it concerns either. Raises ValueError for none, or where one side has none.
    """
    pairs = [(our, their) for our, their in zip(ours, base, strict=True) if our.of or their.of]
    if not all(any(part.of for part in side) for side in (ours, base)):
        raise ValueError("a difference needs at least one value on both sides")
    sample = np.concatenate([_sample([pair[side] for pair in pairs]) for side in (0, 1)], axis=1)
    return _interval(sample, lambda drawn: _ratio(drawn[..., :2]) - _ratio(drawn[..., 2:]), seed)


def _sample(parts: Sequence[Part]) -> NDArray[np.float64]:
    return np.array([(part.amount, part.of) for part in parts], np.float64).reshape(-1, 2)


def _ratio(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """NaN where a resample has only questions that the measure does not concern."""
    amounts, of = sums[..., 0], sums[..., 1]
    ratios: NDArray[np.float64] = np.divide(amounts, of, out=np.full(of.shape, np.nan), where=of != 0)
    return ratios


def _interval(
    sample: NDArray[np.float64], measure: Callable[[NDArray[np.float64]], NDArray[np.float64]], seed: int
) -> Interval:
    if not len(sample):
        raise ValueError("an interval needs at least one value")
    counts = _drawn(len(sample), seed, max(1, _DRAWN_AT_ONCE // len(sample)))
    found = measure(np.concatenate([part @ sample for part in counts]))
    low, high = np.nanquantile(found, [0.025, 0.975])
    return Interval(float(measure(sample.sum(axis=0))), float(low), float(high), len(sample))


@lru_cache(maxsize=4)
def _drawn(questions: int, seed: int, at_once: int) -> tuple[NDArray[np.uint16], ...]:
    """How often each question is in each resample, (resamples, questions), in parts of `at_once` resamples.

    All measures of a table are of the same resamples.
    """
    random = np.random.default_rng(seed)
    sizes = [min(at_once, _RESAMPLES - done) for done in range(0, _RESAMPLES, at_once)]
    return tuple(_counted(random.integers(questions, size=(size, questions))) for size in sizes)


def _counted(rows: NDArray[np.int64]) -> NDArray[np.uint16]:
    size, questions = rows.shape
    flat = (rows + questions * np.arange(size)[:, np.newaxis]).ravel()
    return np.bincount(flat, minlength=rows.size).reshape(rows.shape).astype(np.uint16)

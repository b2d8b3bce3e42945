"""Measures of one question, and what they say of all that could have been asked."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
class Interval:
    """A mean over `count` questions, and the bounds between which it lies with a probability of 95 %."""

    mean: float
    low: float
    high: float
    count: int


def interval(values: Sequence[float], seed: int = 0) -> Interval:
    """The mean and its percentile bootstrap interval (Efron 1979), the same one for the same seed.

    Raises ValueError for no values.
    """
    if not values:
        raise ValueError("an interval needs at least one value")
    sample = np.asarray(values, np.float64)
    means = _resampled_means(sample, np.random.default_rng(seed))
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(sample.mean()), float(low), float(high), len(sample))


def _resampled_means(sample: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float64]:
    at_once = max(1, _DRAWN_AT_ONCE // len(sample))
    sizes = [min(at_once, _RESAMPLES - done) for done in range(0, _RESAMPLES, at_once)]
    drawn = (random.integers(len(sample), size=(size, len(sample))) for size in sizes)
    return np.concatenate([sample[rows].mean(axis=1) for rows in drawn])

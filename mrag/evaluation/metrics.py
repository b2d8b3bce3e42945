"""Answers compared with the accepted ones, as SQuAD and its successors compare them."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


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

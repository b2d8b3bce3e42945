"""Text that must not exceed a number of tokens, cut where a reader would cut it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from mrag.documents.sentences import sentence_spans
from mrag.documents.words import TOKEN

CountTokens = Callable[[str], int]


def cut_at_word(text: str, limit: int, count: CountTokens) -> str:
    """The longest beginning of `text` that ends with a word and has at most `limit` tokens."""
    if count(text) <= limit:
        return text
    return _longest(text, [match.end() for match in TOKEN.finditer(text)], limit, count)


def cut_at_sentence(text: str, limit: int, count: CountTokens) -> str:
    """The same at the end of a sentence; at a word's end where not even one sentence fits."""
    whole = _longest(text, [end for _, end in sentence_spans(text)], limit, count)
    return whole or cut_at_word(text, limit, count)


def _longest(text: str, ends: Sequence[int], limit: int, count: CountTokens) -> str:
    fitting = bisect_right(ends, limit, key=lambda end: count(text[:end]))
    return text[: ends[fitting - 1]] if fitting else ""

"""Scripts without capitals: names can't be told in them, so that a claim must have the words of its quote."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import groupby

# Thai, Lao, Burmese, Khmer, kana, Han: no space parts their words.
_UNPARTED = (
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
_GAP = re.compile(rf"(?<={_UNPARTED})\s+(?={_UNPARTED})")
_LETTERS_AND_MARKS = ("Lo", "Lm", "Mn", "Mc")


def unspoken(quote: str, claim: str) -> frozenset[str]:
    """The words of scripts without capitals in `claim` that do not stand in `quote`.

    Where words are not parted, a run of letters between other signs counts as one, and must be part of the
    quote as it is.
    """
    if claim.isascii():
        return frozenset()
    quote, claim = (_GAP.sub("", unicodedata.normalize("NFKC", text)) for text in (quote, claim))
    said = frozenset(_words(quote))
    return frozenset(
        word
        for word in _words(claim)
        if word not in said and not (re.search(_UNPARTED, word) and word in quote)
    )


def _words(text: str) -> Iterator[str]:
    for caseless, run in groupby(text, lambda c: unicodedata.category(c) in _LETTERS_AND_MARKS):
        if caseless:
            yield "".join(run)

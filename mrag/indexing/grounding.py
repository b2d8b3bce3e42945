"""Grounded values: a record says nothing that does not stand in the text that it was taken from."""

from __future__ import annotations

import re

from mrag.documents.cjk_names import named_anew
from mrag.documents.facts import ordinary_words, unsupported
from mrag.documents.words import bare, content_words, tokens

_QUOTATION = re.compile(
    "|".join(
        (
            *(
                r'"([^"]+)"',
                "“([^”]+)”",
                "„([^“”]+)[“”]",
                "«([^»]+)»",
                "‹([^›]+)›",
                "「([^」]+)」",
                "『([^』]+)』",
            ),
            # Single ones are apostrophes too: within a word, at its end (boys'), before a number ('90s).
            r"(?<!\w)'(?=[^\s\d'])((?:[^']|(?<=\w)'(?=\w))+)(?<!\s)'(?!\w)",
            r"(?<!\w)[‘‚]((?:[^‘’]|(?<=\w)’(?=\w))+)[’‘](?!\w)",
        )
    )
)
_OWN_WORDS = 0.5
_STEM = 5


def ungrounded(value: str, source: str) -> str | None:
    """Why `value` does not stand in `source`, in a few words; None where it does.

    Quotations must stand there word for word, numbers and dates in whatever notation, names and codes
    in whatever case. At least half of the words that carry meaning must begin like a word of the source:
    a rewrite may choose some of its words, what is invented without any name has most of its own.
    """
    if any(not _says(source, quotation) for quotation in _quotations(value)):
        return "its value quotes what its source does not say"
    missing = unsupported(source, value, _ordinary(value, source))
    if missing.dates or missing.numbers:
        return "its value has a number or a date that its source does not"
    if missing.names or named_anew(source, value):
        return "its value has a name that its source does not"
    words, known = _stems(value), _stems(source)
    if len(words - known) > _OWN_WORDS * len(words):
        return "its value says what its source does not"
    return None


def _quotations(text: str) -> list[str]:
    return [next(filter(None, match.groups())) for match in _QUOTATION.finditer(text)]


def _says(source: str, quotation: str) -> bool:
    """Whether the words stand there in this order, whatever is between them but words."""
    said, words = ([bare(token) for token in tokens(text)] for text in (source, quotation))
    return any(said[at : at + len(words)] == words for at in range(len(said) - len(words) + 1))


def _ordinary(value: str, source: str) -> frozenset[str]:
    """Words whose capital at the start of a sentence makes no name: the source has their like without one."""
    ordinary = ordinary_words(source) | ordinary_words(value)
    stems = {word[:_STEM] for word in ordinary}
    return ordinary | {word for word in map(bare, tokens(value)) if word[:_STEM] in stems}


def _stems(text: str) -> set[str]:
    """The beginnings of the words that carry meaning."""
    return {word[:_STEM] for word in content_words(text)}

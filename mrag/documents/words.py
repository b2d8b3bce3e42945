"""Words as the rules of reading see them: synopses, quotes and facts share this one notion."""

from __future__ import annotations

import re

CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_CHARACTER = rf"[^\W_{CJK}]"
TOKEN = re.compile(rf"[{CJK}]|{_CHARACTER}+(?:[-.,'’/]{_CHARACTER}+)*")

STOP_WORDS = frozenset(
    """a about above after again all also am an and any are as at be because been before being below between
    both but by can could did do does doing down during each either else ever every few for from further had
    has have having he her here hers him his how i if in into is it its itself just least less like many may
    me might more most much must my near neither no nor not now of off on once only onto or other our out
    over own per rather said same shall she should since so some such than that the their them then there
    these they this those through thus to too under until up upon us very via was we were what when where
    whether which while who whom whose why will with within without would yet you your""".split()  # noqa: SIM905 (readable at a glance)
)


def tokens(text: str) -> list[str]:
    """The words of `text` as written; a CJK character is a word of its own, `9,450` and `VP-09` are one."""
    return TOKEN.findall(text)


def bare(token: str) -> str:
    """A token without its case and its possessive ending, for comparison."""
    return token.casefold().replace("’", "'").removesuffix("'s")


def content_words(text: str) -> list[str]:
    """The bare words of `text` in order, stop words left out."""
    return [word for word in map(bare, tokens(text)) if word not in STOP_WORDS]

"""The parts of a question that are searched for beside it, found by rules: no model is asked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mrag.documents.words import STOP_WORDS, tokens

MOST_SUB_QUERIES = 4

_PART = r"[^?.,:;]{1,120}?"
_QUOTED = re.compile(r"[\"“„«「『]([^\"“”„«»「」『』]{2,120})[\"”“»」』]")
_COMPARED = (
    re.compile(rf"\bbetween ({_PART}) and ({_PART})(?=[?.,:;]|$)", re.IGNORECASE),
    re.compile(rf"\bboth ({_PART}) and ({_PART})(?=[?.,:;]|$)", re.IGNORECASE),
    re.compile(rf"[,:] ?({_PART}) or ({_PART}) ?\?*$", re.IGNORECASE),
)
_ENDS_A_NAME = re.compile(r"[,;:?!]$")
_AROUND = " .,;:?!\"'“”„«»()[]"
_LINKS = frozenset(["of", "the", "de", "la", "le", "van", "von", "der", "den", "di", "da", "del", "du"])
_ASKING = frozenset(
    """compare describe did do does explain find give had has have how is list name should tell was were what
    when where which who whom whose why will would are can could""".split()  # noqa: SIM905 (as in words.py)
)


def sub_queries(question: str) -> tuple[str, ...]:
    """At most four queries beside the question, none of them equal to it; empty where it has no parts.

    Its parts are what it compares (`..., A or B?`, `between A and B`, `both A and B`), what stands in
    quotation marks, and names: runs of words with a capital. Of several each is asked for with the question's
    own words and without the other parts; a single one is asked for alone, as the first of two hops.
    """
    question = " ".join(question.split())
    parts = _parts(question)[:MOST_SUB_QUERIES]
    rest = _rest(question, parts) if len(parts) > 1 else ""
    queries = (f"{part} {rest}".strip() for part in parts)
    return tuple(query for query in queries if query.casefold() != question.strip(_AROUND).casefold())


def _parts(question: str) -> list[str]:
    """In the order of the question, none within another."""
    found: list[str] = []
    for part in (*_compared(question), *_QUOTED.findall(question), *_names(question)):
        part = part.strip(_AROUND)
        if part and not any(part.casefold() in known.casefold() for known in found):
            found.append(part)
    return sorted(found, key=question.find)


def _compared(question: str) -> Sequence[str]:
    matches = (pattern.search(question) for pattern in _COMPARED)
    return next((found.groups() for found in matches if found), ())


def _names(question: str) -> Iterator[str]:
    """Runs of words with a capital, and what links them; a word that only asks begins none."""
    name: list[str] = []
    for word in [*question.split(), ""]:
        bare = word.strip(_AROUND)
        begins = bare[:1].isupper() and bare.casefold() not in _ASKING | STOP_WORDS
        goes_on = name and (bare[:1].isupper() or bare[:1].isdigit() or bare in _LINKS)
        if begins or goes_on:
            name.append(word)
        if not (begins or goes_on) or _ENDS_A_NAME.search(word):
            yield _without_links(name)
            name = []


def _without_links(name: Sequence[str]) -> str:
    end = next((at for at in range(len(name), 0, -1) if name[at - 1] not in _LINKS), 0)
    return " ".join(name[:end])


def _rest(question: str, parts: Sequence[str]) -> str:
    """The question's own words once, the parts apart."""
    for part in parts:
        question = question.replace(part, " ")
    words = (word for word in tokens(question) if word.casefold() not in STOP_WORDS | _ASKING)
    return " ".join(dict.fromkeys(words))

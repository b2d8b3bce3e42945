"""What a claim turns round of a quote, where a rule can tell: a negation, and who did it to whom.

Both are read clause by clause, a clause of the claim against those of the quote that share most of its
words, and only from words that both have: what is said in other words is not judged. English only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile

from mrag.documents.words import STOP_WORDS, TOKEN, bare

_CLAUSES = re.compile(
    r"[.!?;:…—](?:\s+|$)|,\s+|\s[–-]\s|\s+(?=(?:but|while|although|though|because|since|whereas|which|who|that|"
    r"if|unless|when|where|until|so)\b)",
    re.IGNORECASE,
)
_NEGATIONS = frozenset(
    "no not never neither nor none nobody nothing nowhere without cannot hardly scarcely".split()  # noqa: SIM905
)
# `no more than 5`, `not before May` and `not only` deny nothing of what follows.
_DENIES_NOTHING = frozenset(
    """above after before below beyond doubt earlier fewer just later least less matter merely more only over
    under until""".split()  # noqa: SIM905
)
_TURNING = frozenset(("before", "until", "unless", "except", "without"))  # `no one before` says who is first
_FILLERS = frozenset(("longer", "one"))  # of `no longer` and `no one`: what is denied comes after
# Words that deny by what they mean: beside them the same may be said without a negation.
_DENYING = re.compile(
    r"lack|fail|exclu|except|exempt|miss|omit|omis|skip|refus|reject|declin|den[yi]|prohibit|forb|bann|prevent|"
    r"avoid|absent|absence|abandon|cancel|stop|ceas|unless|instead|rather|free$|few$|rare|seldom|only|zero|0$|"
    r"un(?!der|i|til)|im(?:poss|prob)|in(?:valid|complete|correct|adequ|suffic|activ|eligib|access|capab)|"
    r"ir(?:reg|rev)|illegal|dis(?:allow|agree|approv|continu|satisf|qualif|abl|regard|appear|claim)|non-"
)
_PREPOSITIONS = frozenset(
    """about above across after against along among around as at before behind below beneath beside between
    beyond despite during except for from in inside into like near of off on onto over past since through
    to toward towards under until upon via with within without""".split()  # noqa: SIM905
)
_ARTICLES = frozenset(("a", "an", "the"))
_BE = frozenset("is are was were be been being got gets".split())  # noqa: SIM905
_PAST = frozenset(
    """beat bought brought built caught chose drew drove fed felt found fought gave held hit hired kept led
    left lent made outbid outsold overtook owed paid read rebuilt rode sank saw sent shot sold sought spent
    stole struck sued taught threw told took won wrote""".split()  # noqa: SIM905
)
# What both sides do to each other.
_MUTUAL = re.compile(
    r"m[ae]t$|marri|wed|divorc|border|adjoin|join|merg|equal|match|resembl|separat|unit|connect|link|neighbo|"
    r"cooperat|collaborat|negotiat|agree|sign|partner|tied"
)
_MIN_SHARED = 2
_VOWELS = frozenset("aeiou")


@dataclass(frozen=True)
class _Clause:
    """The words of a clause as written, the stems of those that carry meaning, and the denied of them."""

    words: tuple[str, ...]
    stems: frozenset[str]
    denied: frozenset[str]
    denying: bool


def contradicts(quote: str, claim: str) -> bool:
    """Whether the claim denies what the quote says, says what it denies, or swaps the two sides of a deed."""
    quoted = _clauses(quote)
    for clause in _clauses(claim):
        nearest = _nearest(clause, quoted)
        if nearest and all(_turned(clause, other) or _swapped(clause, other) for other in nearest):
            return True
    return False


@lru_cache(maxsize=64)
def _clauses(text: str) -> tuple[_Clause, ...]:
    parts = (tuple(TOKEN.findall(part)) for part in _CLAUSES.split(text) if part)
    return tuple(_clause(words) for words in parts if words)


def _clause(words: tuple[str, ...]) -> _Clause:
    plain = [bare(word) for word in words]
    stems = [None if word in STOP_WORDS or negates(word) else _stem(word) for word in plain]
    denied = frozenset(filter(None, (_denied(plain, stems, at) for at in range(len(plain)))))
    denying = any(negates(word) or _DENYING.match(word) for word in plain)
    return _Clause(words, frozenset(filter(None, stems)), denied, denying)


def _denied(plain: Sequence[str], stems: Sequence[str | None], at: int) -> str | None:
    """The word that a negation at this place denies: the next one that carries meaning."""
    after = at + 1 + (plain[at + 1 : at + 2] != [] and plain[at + 1] in _FILLERS)
    if not negates(plain[at]) or (after < len(plain) and plain[after] in _DENIES_NOTHING):
        return None
    return next(filter(None, stems[after:]), None) if _TURNING.isdisjoint(plain[after:]) else None


def negates(word: str) -> bool:
    """Whether a bare word denies what it stands with: `not`, `cannot`, `isn't`."""
    return word in _NEGATIONS or word.endswith("n't")


def _stem(word: str) -> str:
    """A word without the commonest endings of English, so that `applies`, `applied` and `apply` are one."""
    for ending, instead in (
        ("ies", "y"),
        ("ied", "y"),
        ("ing", ""),
        ("ed", ""),
        ("es", ""),
        ("s", ""),
        ("e", ""),
    ):
        stem = word.removesuffix(ending) + instead
        if word.endswith(ending) and len(stem) > 2 and not word.endswith("ss"):
            doubled = len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in _VOWELS | {"l", "s"}
            return (stem[:-1] if doubled else stem).removesuffix("e")
    return word


def _nearest(clause: _Clause, quoted: Sequence[_Clause]) -> list[_Clause]:
    """The clauses of the quote that share most stems with this one, if they share enough of them."""
    shared = [len(clause.stems & other.stems) for other in quoted]
    most = max(shared, default=0)
    enough = most >= (min(_MIN_SHARED, len(clause.stems)) or 1)
    return [other for other, n in zip(quoted, shared, strict=True) if enough and n == most]


def _turned(claim: _Clause, quote: _Clause) -> bool:
    """Whether one of the two denies a word that the other has, and the other denies nothing."""
    dropped = claim.stems & quote.denied and not claim.denying
    added = quote.stems & claim.denied and not quote.denying
    return bool(dropped or added)


# --------------------------------------------------------------------------- who did it to whom


@dataclass(frozen=True)
class _Deed:
    """A verb between two names, and the words of the names: who did it, and to whom."""

    verb: str
    agent: frozenset[str]
    patient: frozenset[str]


def _swapped(claim: _Clause, quote: _Clause) -> bool:
    others = list(_deeds(quote.words))
    return any(
        deed.verb == other.verb and deed.agent & other.patient and deed.patient & other.agent
        for deed in _deeds(claim.words)
        for other in others
    )


def _deeds(words: Sequence[str]) -> Iterator[_Deed]:
    for at, word in enumerate(words):
        plain = bare(word)
        if not word[0].islower() or not (plain.endswith("ed") or plain in _PAST) or _MUTUAL.match(plain):
            continue
        before, after = _subject(words[:at]), words[at + 1 :]
        passive = bool(_BE & {bare(other) for other in words[max(0, at - 2) : at]})
        by = next((n for n, other in enumerate(after) if bare(other) == "by"), None)
        if passive or by is not None:
            agent, patient = (_name(after[by + 1 :]) if by is not None else frozenset[str]()), before
        else:
            agent, patient = before, _name(after)
        if agent and patient and not agent & patient:
            yield _Deed(_stem(plain), agent, patient)


def _subject(words: Sequence[str]) -> frozenset[str]:
    """The last name of the words that no preposition governs."""
    name: frozenset[str] = frozenset()
    at = 0
    while at < len(words):
        length = _length(words[at:])
        governs = [bare(word) for word in words[:at] if bare(word) not in _ARTICLES][-1:]
        if length and not _PREPOSITIONS.issuperset(governs or [""]):
            name = frozenset(map(bare, words[at : at + length]))
        at += length or 1
    return name


def _name(words: Sequence[str]) -> frozenset[str]:
    """The bare words of the name with which the words begin, an article apart; none where they do not."""
    begin = 1 if words and bare(words[0]) in _ARTICLES else 0
    return frozenset(map(bare, words[begin : begin + _length(words[begin:])]))


def _length(words: Sequence[str]) -> int:
    """How many words of the name there are with which the words begin."""
    capital = (word[0].isupper() and bare(word) not in STOP_WORDS for word in words)
    return sum(1 for _ in takewhile(bool, capital))

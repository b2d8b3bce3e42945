"""Records that say the same become one, with all their keys and pointers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from math import ceil

from mrag.documents.facts import supports
from mrag.documents.statements import negates
from mrag.documents.words import bare, tokens
from mrag.indexing.records import Draft

_ALIKE = 0.9

Words = frozenset[str]


def merged(drafts: Iterable[Draft], max_pointers: int) -> tuple[Draft, ...]:
    """Drafts of near-identical values become one: the first, with the keys and pointers of all.

    Near-identical: at least nine tenths of the words of both together are shared, in the same order, and
    the values state the same numbers, dates and names and deny the same. Where the pointers together
    were more than `max_pointers`, both drafts stay.
    """
    kept: list[Draft] = []
    words_of: list[Words] = []
    by_word: dict[str, list[int]] = defaultdict(list)
    for draft in drafts:
        words = frozenset(map(bare, tokens(draft.value)))
        telling = _telling(words)
        near = sorted({at for word in telling for at in by_word[word] if _alike(words, words_of[at])})
        twin = next((at for at in near if _may_join(kept[at], draft, max_pointers)), None)
        if twin is not None:
            kept[twin] = _joined(kept[twin], draft)
            continue
        for word in telling:
            by_word[word].append(len(kept))
        kept.append(draft)
        words_of.append(words)
    return tuple(_joined(draft, draft) for draft in kept)


def _telling(words: Words) -> list[str]:
    """So many of the words, long ones first, that values which are alike have one of them in common."""
    ordered = sorted(words, key=lambda word: (-len(word), word))
    return ordered[: len(words) - ceil(_ALIKE * len(words)) + 1]


def _alike(some: Words, other: Words) -> bool:
    return len(some & other) >= _ALIKE * len(some | other)


def _may_join(some: Draft, other: Draft, max_pointers: int) -> bool:
    pointers = {*some.pointers, *other.pointers}
    return len(pointers) <= max_pointers and _state_the_same(some.value, other.value)


def _state_the_same(some: str, other: str) -> bool:
    words, others = ([bare(token) for token in tokens(value)] for value in (some, other))
    shared = {*words} & {*others}
    return (
        [word for word in words if word in shared] == [word for word in others if word in shared]
        and not any(map(negates, {*words} ^ {*others}))
        and supports(some, other)
        and supports(other, some)
    )


def _joined(some: Draft, other: Draft) -> Draft:
    distinct: dict[str, str] = {}
    for key in (*some.keys, *other.keys):  # the best comes first, and stays there
        distinct.setdefault(key.casefold(), key)
    return replace(
        some,
        keys=tuple(distinct.values()),
        pointers=tuple(sorted({*some.pointers, *other.pointers})),
    )

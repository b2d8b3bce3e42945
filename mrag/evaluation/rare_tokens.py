"""Questions by rule, each about a token that stands in one source unit of a collection and in no key of it.

They show what a search by keys alone loses: an identifier, a number or a name that no key repeats.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from mrag.collection import Collection, known_documents
from mrag.documents.words import STOP_WORDS, TOKEN, bare, tokens
from mrag.errors import InputError
from mrag.schema import SourceUnit
from mrag.settings import CollectionSettings

LEAST_DIGITS = 3
LEAST_LETTERS = 4
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_WITHIN = re.compile(r"[\w,)] $")  # what stands before a word that no sentence begins with


class TokenKind(StrEnum):
    """What a rare token is: mixed of letters and digits, digits, or a word with a capital in a sentence."""

    IDENTIFIER = "identifier"
    NUMBER = "number"
    NAME = "name"


@dataclass(frozen=True)
class RareToken:
    """A token as written, and the one unit that it stands in."""

    token: str
    kind: TokenKind
    unit: SourceUnit

    def question(self) -> dict[str, Any]:
        """A line of a questions file."""
        document, number = self.unit.document_id, self.unit.number
        return {
            "id": f"{document}#{number}",
            "question": f"What do the documents say about {self.token}?",
            "kind": self.kind.value,
            "token": self.token,
            "gold_doc_ids": [document],
            "gold_sentences": [{"doc_id": document, "text": self.unit.text}],
        }


def rare_token_questions(place: CollectionSettings, count: int, seed: int) -> list[dict[str, Any]]:
    """At most `count` questions, the same ones for the same seed: one a unit, the kinds in turn.

    Raises NotFoundError and CollectionError for the collection, InputError (field `collection`) where every
    token stands in a key, as where keys are the text itself.
    """
    with closing(Collection.open(place.root, place.name, verify=place.verify, legs=())) as collection:
        found = rare_tokens(collection, sorted(known_documents(place.root, place.name)))
    if not found:
        raise InputError(
            "collection",
            f"Every identifier, number and name of collection {place.name!r} stands in a key or in several "
            "units: give a collection whose records were extracted.",
        )
    return [rare.question() for rare in drawn(found, count, seed)]


def rare_tokens(collection: Collection, document_ids: Iterable[str]) -> list[RareToken]:
    """All of them, in the order of the documents. Titles and sections count as keys: they are searched."""
    seen: dict[str, tuple[str, int]] = {}
    common, candidates = set[str](), dict[str, RareToken]()
    for document_id in document_ids:
        for text in _searched(collection, document_id):
            common.update(form for token in tokens(text) for form in _forms(token))
        for unit in collection.units(document_id):
            place = unit.document_id, unit.number
            for match in TOKEN.finditer(unit.text):
                common.update(word for word in _forms(match[0]) if seen.setdefault(word, place) != place)
                if kind := _kind(match):
                    candidates.setdefault(bare(match[0]), RareToken(match[0], kind, unit))
    return [rare for word, rare in candidates.items() if word not in common]


def _searched(collection: Collection, document_id: str) -> Iterator[str]:
    """What is searched of a document beside its units."""
    yield collection.document(document_id).title
    for unit in collection.units(document_id):
        yield from unit.section
    for record in collection.records(document_id):
        yield from record.keys


def _forms(token: str) -> Iterator[str]:
    """What a token is found by: the bare word, and the parts of one with hyphens."""
    return map(bare, (token, *token.split("-")))


def _kind(match: re.Match[str]) -> TokenKind | None:
    token = match[0]
    if any(c.isdigit() for c in token):
        if not _NUMBER.fullmatch(token):
            return TokenKind.IDENTIFIER
        return TokenKind.NUMBER if sum(c.isdigit() for c in token) >= LEAST_DIGITS else None
    within = _WITHIN.search(match.string, max(0, match.start() - 2), match.start())
    is_name = token[0].isupper() and len(token) >= LEAST_LETTERS and bare(token) not in STOP_WORDS
    return TokenKind.NAME if is_name and within else None


def drawn(found: Sequence[RareToken], count: int, seed: int) -> list[RareToken]:
    """At most `count` of them, the kinds in turn and no two of one unit."""
    shuffled = random.Random(seed).sample(list(found), len(found))
    kinds = [[rare for rare in shuffled if rare.kind is kind] for kind in TokenKind]
    taken: dict[tuple[str, int], RareToken] = {}
    while any(kinds) and len(taken) < count:
        for waiting in kinds:
            while waiting and len(taken) < count:
                rare = waiting.pop()
                place = rare.unit.document_id, rare.unit.number
                if place not in taken:
                    taken[place] = rare
                    break
    return list(taken.values())

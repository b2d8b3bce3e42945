"""What a run has to do: each input against what the collection knows. Pure, on small tuples only."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import NamedTuple

from mrag.collection import content_hash, text_of
from mrag.documents.loaders import LOADERS
from mrag.schema import Document, Outcome, Status


class Input(NamedTuple):
    """One document as it was read. `origin` says where, and is another for every input."""

    id: str
    hash: str
    is_empty: bool
    origin: str


@dataclass(frozen=True)
class Diff:
    """`to_index` in the order of the inputs; every other input has its outcome in `outcomes`.

    `duplicates` names for an input (one of `copied`) the document that holds its text. `replaced` are known
    documents whose old content must go, because they are now empty or duplicates; `removed` those that are
    no longer among the inputs, where such must go, too. `withheld` is a sentence on why they stay all the
    same. `heirs` names for a removed document the input that is to be indexed with its text. `inputs` are
    the ids beside which nothing may be kept of documents that do not live; None where others may still come.
    """

    to_index: tuple[Input, ...]
    outcomes: tuple[Outcome, ...]
    duplicates: Mapping[str, str]
    replaced: tuple[str, ...]
    removed: tuple[str, ...] = ()
    withheld: str = ""
    heirs: Mapping[str, str] = field(default_factory=dict)
    inputs: frozenset[str] | None = None
    copied: tuple[Input, ...] = ()

    @property
    def ended(self) -> tuple[str, ...]:
        """Known documents, or duplicates, of which nothing may stay; inputs without a text among them."""
        empty = (outcome.id for outcome in self.outcomes if outcome.status is Status.EMPTY)
        return tuple(dict.fromkeys((*self.replaced, *self.removed, *empty)))


def input_of(document: Document, origin: str) -> Input:
    """What `diff` needs of a document."""
    return Input(document.id, content_hash(document), not document.text.strip(), origin)


def diff(inputs: Iterable[Input], known: Mapping[str, str]) -> Diff:
    """Sorts the inputs by what has to be done. `known` has the hash of every live document by its id.

    The same text under another id is a duplicate of a document that keeps that text, or else of the
    first input that brings it. An id that comes a second time fails, unless it is the same document.
    """
    firsts: dict[str, Input] = {}
    again: list[Outcome] = []
    for item in inputs:
        first = firsts.setdefault(item.id, item)
        if first is not item:
            again.append(_repeated(first, item))
    decided = _Decisions(firsts, known)
    for item in firsts.values():
        decided.decide(item)
    return Diff(
        tuple(decided.to_index),
        (*decided.outcomes, *again),
        decided.duplicates,
        tuple(decided.replaced),
        copied=tuple(decided.copied),
    )


def synced(
    inputs: Sequence[Input], unread: Iterable[Outcome], known: Mapping[str, str], duplicates: Collection[str]
) -> Diff:
    """The same, and what the inputs lack of the known documents and `duplicates` is removed.

    A document is not among the inputs only because its file can't be read this time: it stays. Where a
    folder, or a file of many documents, can't be read in full nobody can say what it lacks, and nothing is
    removed. What only has another name stays under its old one until it is indexed under the new.
    """
    unread = list(unread)
    torn = sorted(outcome.id for outcome in unread if _holds_many(outcome, known))
    if torn:
        why = f"Nothing was removed, since {torn[0]} can't be read: mend it or take it out, and run again."
        return replace(diff(inputs, known), withheld=why)
    here = {item.id for item in inputs} | {outcome.id for outcome in unread}
    kept = {identifier: held for identifier, held in known.items() if identifier in here}
    found = diff(inputs, kept)
    removed = tuple(sorted({*known, *duplicates} - here))
    new = {text_of(item.hash): item.id for item in reversed(found.to_index)}
    texts = {identifier: text_of(known[identifier]) for identifier in removed if identifier in known}
    heirs = {identifier: new[text] for identifier, text in texts.items() if text in new}
    return replace(found, removed=removed, heirs=heirs, inputs=frozenset(here))


def _holds_many(outcome: Outcome, known: Iterable[str]) -> bool:
    """Whether what could not be read is a folder, or a file of which every line is a document."""
    suffix = PurePosixPath(outcome.id.rpartition("#")[0] or outcome.id).suffix.lower()
    below = any(identifier.startswith(f"{outcome.id}/") for identifier in known)
    return suffix == ".jsonl" or (outcome.status is Status.FAILED and (suffix not in LOADERS or below))


def _repeated(first: Input, item: Input) -> Outcome:
    if first.hash == item.hash:
        return Outcome(
            item.id, Status.DUPLICATE, f"The same document stands in {first.origin} and {item.origin}."
        )
    detail = f"{first.origin} and {item.origin} both have this id: only the first counts, rename the other."
    return Outcome(item.id, Status.FAILED, detail)


class _Decisions:
    """The inputs of different ids, decided one by one in their order."""

    def __init__(self, inputs: Mapping[str, Input], known: Mapping[str, str]) -> None:
        self._known = known
        self._holders: dict[str, str] = {}
        for identifier, held in known.items():
            item = inputs.get(identifier)
            if item is None or text_of(item.hash) == text_of(held):
                self._holders.setdefault(text_of(held), identifier)
        self.to_index: list[Input] = []
        self.outcomes: list[Outcome] = []
        self.duplicates: dict[str, str] = {}
        self.copied: list[Input] = []
        self.replaced: list[str] = []

    def decide(self, item: Input) -> None:
        if self._known.get(item.id) == item.hash:
            self.outcomes.append(Outcome(item.id, Status.UNCHANGED))
        elif item.is_empty:
            self._leave_out(item, Outcome(item.id, Status.EMPTY))
        elif (first := self._holders.setdefault(text_of(item.hash), item.id)) != item.id:
            self.duplicates[item.id] = first
            self.copied.append(item)
            self._leave_out(item, Outcome(item.id, Status.DUPLICATE, f"It has the same text as {first}."))
        else:
            self.to_index.append(item)

    def _leave_out(self, item: Input, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        if item.id in self._known:
            self.replaced.append(item.id)


def settled(found: Diff, built: Iterable[Outcome]) -> Diff:
    """The diff after its documents were built: a duplicate of one that was not indexed ends like it.

    A removed document stays where the one that was to have its text was not indexed.
    """
    left = {outcome.id: outcome.status for outcome in built if outcome.status is not Status.INDEXED}
    lost = {copy: first for copy, first in found.duplicates.items() if first in left}

    def settle(outcome: Outcome) -> Outcome:
        if outcome.id not in lost or outcome.status is not Status.DUPLICATE:
            return outcome
        first = lost[outcome.id]
        return Outcome(outcome.id, left[first], f"It has the text of {first}, which is {left[first]}.")

    return replace(
        found,
        outcomes=tuple(map(settle, found.outcomes)),
        duplicates={copy: first for copy, first in found.duplicates.items() if copy not in lost},
        replaced=tuple(identifier for identifier in found.replaced if identifier not in lost),
        removed=tuple(gone for gone in found.removed if found.heirs.get(gone) not in left),
    )

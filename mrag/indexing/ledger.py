"""The ledger: validated replies, kept as they come, so that no run pays for the same one twice."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from mrag.collection.files import Files, files_of
from mrag.collection.ids import stable_hash
from mrag.errors import SettingsError
from mrag.indexing.validation import VALIDATOR
from mrag.models.language_model import Completion, Request
from mrag.models.request_key import request_key
from mrag.schema import Usage
from mrag.settings import CollectionSettings

FOLDER = "ledger"


class Ledger:
    """`<root>/<collection>/ledger`: a folder for each document id, in it a file for each reply.

    A file is whole or absent and has one writer's bytes, whoever else writes it; so any worker that sees
    the storage may read and write, and a run that was killed leaves all that it had validated.
    An entry goes with its document: two documents that ask the same keep a copy each, and so do two
    collections. What this ledger lacks of a document is looked for in `other`.
    """

    def __init__(self, root: Path, name: str, other: Ledger | None = None) -> None:
        self._files = files_of(root, name)
        self._other = other

    @classmethod
    def of(cls, settings: CollectionSettings) -> Ledger:
        """The ledger of a run. Raises SettingsError where `replies_of` has none."""
        root, named = settings.root, settings.replies_of
        if named is None:
            return cls(root, settings.name)
        other = cls(root, named)
        if not any(True for _ in other._files.below(FOLDER)):
            raise SettingsError(
                f"collection.replies_of is {named!r}, but {root} has no ledger of such a collection: "
                "name one that is there, or leave it out."
            )
        return cls(root, settings.name, other)

    def entries(self, document_id: str) -> Entries:
        """The replies of one document."""
        other = self._other.entries(document_id) if self._other else None
        return Entries(self._files, _folder(document_id), other)

    def forget(self, document_ids: Iterable[str]) -> None:
        """Removes every reply of these documents."""
        for document_id in document_ids:
            self.entries(document_id).keep_only(())

    def hand_on(self, heirs: Mapping[str, str]) -> None:
        """Gives a document's replies to the one that is to have its text: what both ask is not asked again.

        Those that it does not ask for leave the ledger when it is built.
        """
        for gone, heir in heirs.items():
            for name in self._files.names(_folder(gone)):
                if content := self._files.read(f"{_folder(gone)}/{name}"):
                    self._files.write(f"{_folder(heir)}/{name}", content)

    def keep_only(self, document_ids: Iterable[str]) -> None:
        """Removes every reply of all other documents, also of such as were never published."""
        kept = {_folder(document_id) for document_id in document_ids}
        below = self._files.below(FOLDER)
        self._files.remove([path for path in below if path.rpartition("/")[0] not in kept])


def _folder(document_id: str) -> str:
    digest = f"{stable_hash(document_id):016x}"
    return f"{FOLDER}/{digest[:2]}/{digest}"


class Entries:
    """The validated replies of one document, by request key."""

    def __init__(self, files: Files, folder: str, other: Entries | None = None) -> None:
        self._files = files
        self._folder = folder
        self._other = other

    def get(self, key: str) -> Completion | None:
        """The reply, here or in the other ledger; None where there is none, or none that can be read.

        Raises StoreError.
        """
        return self._own(key) or (self._other.get(key) if self._other else None)

    def take(self, key: str) -> Completion | None:
        """The same to build on: what the other ledger has is kept here too."""
        if reply := self._own(key):
            return reply
        if reply := self._other.get(key) if self._other else None:
            self.put(key, reply)
        return reply

    def _own(self, key: str) -> Completion | None:
        try:
            entry = json.loads(self._files.read(self._path(key)) or b"")
            return Completion(entry["text"], Usage(**entry["usage"]), entry["finish"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, key: str, reply: Completion) -> None:
        """Keeps a reply, for good before this returns. Raises CollectionError, as for a full disk."""
        self._files.write(self._path(key), json.dumps(asdict(reply)).encode())

    def keep_only(self, keys: Iterable[str]) -> None:
        """Removes the replies of all other keys: of an earlier text, prompt or model."""
        kept = {self._path(key) for key in keys}
        paths = {f"{self._folder}/{name}" for name in self._files.names(self._folder)}
        self._files.remove(paths - kept)

    def _path(self, key: str) -> str:
        return f"{self._folder}/{key}.json"


def ledger_key(request: Request, model: str) -> str:
    """All that a validated reply depends on: the request, the name of the model, the validator."""
    return request_key(request, model, validator=VALIDATOR)

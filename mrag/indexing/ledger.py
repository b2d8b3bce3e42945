"""The ledger: validated replies, kept as they come, so that no run pays for the same one twice."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from mrag.collection.ids import stable_hash
from mrag.collection.storage import atomic_write, writable
from mrag.indexing.validation import VALIDATOR
from mrag.models.language_model import Completion, Request
from mrag.models.request_key import request_key
from mrag.schema import Usage


class Ledger:
    """`<root>/<collection>/ledger`: a folder for each document id, in it a file for each reply.

    A file is whole or absent and has one writer's bytes, whoever else writes it; so any worker that sees
    the storage may read and write, and a run that was killed leaves all that it had validated.
    An entry goes with its document: two documents that ask the same keep a copy each.
    """

    def __init__(self, root: Path, name: str) -> None:
        self._folder = root / name / "ledger"

    def entries(self, document_id: str) -> Entries:
        """The replies of one document."""
        return Entries(self._place(document_id))

    def forget(self, document_ids: Iterable[str]) -> None:
        """Removes every reply of these documents."""
        for document_id in document_ids:
            self.entries(document_id).keep_only(())

    def keep_only(self, document_ids: Iterable[str]) -> None:
        """Removes every reply of all other documents, also of such as were never published."""
        kept = {self._place(document_id) for document_id in document_ids}
        for folder in self._folder.glob("*/*"):
            if folder not in kept:
                Entries(folder).keep_only(())

    def _place(self, document_id: str) -> Path:
        digest = f"{stable_hash(document_id):016x}"
        return self._folder / digest[:2] / digest


class Entries:
    """The validated replies of one document, by request key."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> Completion | None:
        """The reply; None where there is none, or none that can be read."""
        try:
            entry = json.loads(self._path(key).read_text("utf-8"))
            return Completion(entry["text"], Usage(**entry["usage"]), entry["finish"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, key: str, reply: Completion) -> None:
        """Keeps a reply; it is on disk before this returns. Raises CollectionError for a full disk."""
        with writable(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            atomic_write(self._path(key), json.dumps(asdict(reply)).encode())

    def keep_only(self, keys: Iterable[str]) -> None:
        """Removes the replies of all other keys: of an earlier text, prompt or model."""
        kept = {self._path(key) for key in keys}
        for path in self._folder.glob("*"):
            if path not in kept:
                path.unlink(missing_ok=True)
        if not kept:
            with suppress(OSError):  # It is not there, or another run has just kept a reply in it.
                self._folder.rmdir()

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.json"


def ledger_key(request: Request, model: str) -> str:
    """All that a validated reply depends on: the request, the name of the model, the validator."""
    return request_key(request, model, validator=VALIDATOR)

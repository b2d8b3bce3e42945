"""Collections that are kept open between questions, each at the generation in force."""

from __future__ import annotations

from pathlib import Path
from threading import Lock

from mrag.collection.collection import Collection
from mrag.collection.manifest import read_manifest
from mrag.settings import DenseSettings


class OpenCollections:
    """Opens the collections below `root` on demand; every call looks whether there is a newer generation.

    Vectors of another encoder are refused. A question that is under way keeps the generation it began
    with: what is replaced here lives as long as someone reads it.
    """

    def __init__(self, root: Path, encoder_fingerprint: str, dense: DenseSettings | None = None) -> None:
        self._root = root
        self._encoder = encoder_fingerprint
        self._dense = dense
        self._opened: dict[str, Collection] = {}
        self._lock = Lock()

    def __call__(self, name: str) -> Collection:
        """The collection. Raises NotFoundError for an unknown one, CollectionError for a damaged one."""
        with self._lock:
            opened = self._opened.get(name)
            manifest = read_manifest(self._root, name)
            # Whole manifests: a collection that was indexed anew may have the same generation's number.
            if opened is None or manifest != opened.manifest:
                self._opened.pop(name, None)
                opened = Collection.open(
                    self._root, name, encoder_fingerprint=self._encoder, dense=self._dense
                )
                self._opened[name] = opened
            return opened

"""Collections that are kept open between questions, each at the generation in force."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from time import monotonic

from mrag.collection.collection import Collection
from mrag.collection.manifest import Manifest, read_manifest
from mrag.errors import CollectionError, SettingsError, StoreError
from mrag.schema import Leg
from mrag.settings import DenseSettings
from mrag.settings.storage import Verify

RETRY_S = 10.0

Watch = Callable[[Manifest, bool], None]

_log = logging.getLogger(__name__)


class OpenCollections:
    """Opens the collections below `root` on demand; every call looks whether there is a newer generation.

    Vectors of another encoder are refused. A question that is under way keeps the generation it began
    with: what is replaced here lives as long as someone reads it. While a newer generation is being opened,
    and where it can't be, the one before goes on serving; that is logged, and tried again after `retry_s`.
    So it is while an object store can't be asked which is the newest.
    One that holds what was deleted since does not: questions wait. No collection waits for another.

    `legs` are those to search here, none where others search; `verify` is as in `Collection.open`.
    `prepare` is called before a generation serves, and may raise CollectionError to keep the one before.
    `watch` is told which serves from now on, and whether that is so because a later one can't be opened.
    """

    def __init__(
        self,
        root: Path,
        encoder_fingerprint: str,
        dense: DenseSettings | None = None,
        retry_s: float = RETRY_S,
        legs: tuple[Leg, ...] = ("dense", "sparse"),
        prepare: Callable[[Manifest], None] | None = None,
        watch: Watch | None = None,
        verify: Verify | None = None,
    ) -> None:
        self._root = root
        self._encoder = encoder_fingerprint
        self._dense = dense
        self._retry_s = retry_s
        self._legs = legs
        self._prepare = prepare
        self._verify = verify
        self._watch = watch or (lambda _manifest, _stuck: None)
        self._opened: dict[str, Collection] = {}
        self._turns: dict[str, Lock] = {}
        self._failed_at: dict[str, float] = {}
        self._unreachable_at: dict[str, float] = {}

    def __call__(self, name: str) -> Collection:
        """The collection. Raises NotFoundError for an unknown one, CollectionError for a damaged one."""
        opened = self._opened.get(name)
        if opened is not None and self._lately(self._unreachable_at, name):
            return opened
        try:
            manifest = read_manifest(self._root, name)
        except CollectionError as error:
            if isinstance(error, StoreError):
                self._unreachable_at[name] = monotonic()
            return self._instead(name, opened, error)
        if opened is not None and manifest == opened.manifest:
            if self._failed_at.pop(name, None):
                self._watch(manifest, False)
            return opened
        older = opened if opened is not None and _follows(manifest, opened.manifest) else None
        if older is None:
            self._opened.pop(name, None)
        elif self._lately(self._failed_at, name):
            return older
        return self._in_turn(name, older) if manifest is not None else self._open(name)

    def _in_turn(self, name: str, older: Collection | None) -> Collection:
        """One thread opens; others take the generation before where there is one, else they wait."""
        turn = self._turns.setdefault(name, Lock())
        if not turn.acquire(blocking=older is None) and older is not None:
            return older
        try:
            known = self._opened.get(name)
            if known is None or known.manifest != read_manifest(self._root, name):
                known = self._open(name)
                self._prepared(known.manifest, older)
                self._opened[name] = known
                self._failed_at.pop(name, None)
                self._watch(known.manifest, False)
            return known
        except (CollectionError, SettingsError, OSError, MemoryError) as error:  # A GPU may be too small.
            return self._instead(name, older, error)
        finally:
            turn.release()

    def _open(self, name: str) -> Collection:
        return Collection.open(
            self._root,
            name,
            verify=self._verify,
            encoder_fingerprint=self._encoder,
            dense=self._dense,
            legs=self._legs,
        )

    def _prepared(self, manifest: Manifest, older: Collection | None) -> None:
        """Elsewhere too; where nothing older may serve, as far as it goes."""
        try:
            if self._prepare:
                self._prepare(manifest)
        except CollectionError as error:
            if older is not None:
                raise
            _log.warning("Collection %s serves without a part: %s", manifest.name, error)

    def _instead(self, name: str, older: Collection | None, error: Exception) -> Collection:
        """The generation before; the error where there is none."""
        if older is None:
            raise error
        if not self._lately(self._failed_at, name):
            self._failed_at[name] = monotonic()
            number = older.manifest.generation
            _log.warning(
                "Collection %s stays at generation %d, the next can't be opened: %s", name, number, error
            )
            self._watch(older.manifest, True)
        return older

    def _lately(self, times: Mapping[str, float], name: str) -> bool:
        return name in times and monotonic() - times[name] < self._retry_s


def _follows(manifest: Manifest | None, earlier: Manifest) -> bool:
    """Whether it is a later generation, not another collection that took the name, and took nothing out."""
    if manifest is None:
        return False
    later = manifest.generation > earlier.generation >= manifest.removal
    return later and manifest.stamp == earlier.stamp

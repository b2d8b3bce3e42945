"""One writer at a time in an object store: a lease that is renewed while its holder lives, and then ends."""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from threading import Event, RLock, Thread

from mrag.collection.current import CURRENT, Current, Holder, read_lines
from mrag.collection.object_store import ObjectStore
from mrag.collection.storage import being_written
from mrag.errors import CollectionError, StoreError
from mrag.settings.address import StoreAddress

TERM_S = 60.0
POLL_S = 1.0
RENEWALS = 4  # in a term
_LOOKS = 8

_held: dict[tuple[StoreAddress, str], RemoteLease] = {}


@contextmanager
def held(store: ObjectStore, name: str, wait_s: float) -> Iterator[RemoteLease]:
    """Holds a collection. Raises CollectionError where another still does after `wait_s`, and says who."""
    _check_conditions(store)
    lease = RemoteLease(store, name)
    generation = lease.take(wait_s).generation
    _held[store.address, name] = lease
    renewing = Thread(target=lease.keep, name=f"lease of {name}", daemon=True)
    renewing.start()
    try:
        _remove_later(store, name, generation)
        yield lease
    finally:
        with lease.publisher:
            del _held[store.address, name]
        lease.ended.set()
        renewing.join(TERM_S / RENEWALS)
        with suppress(CollectionError):  # Then it ends by itself.
            lease.release()


@cache
def _check_conditions(store: ObjectStore) -> None:
    """Once in a process: on a store that takes a condition and does not look at it nobody would be told."""
    key = ".conditions"
    store.put(key, b"")
    if store.put_if(key, b"", None) or store.put_if(key, b"", '"another"'):
        raise StoreError(
            f"{store.address} writes whatever the condition (If-None-Match, If-Match), so that two writers "
            "could undo each other's work: take a store with conditional writes, or a folder."
        )


@contextmanager
def publishing(store: ObjectStore, name: str) -> Iterator[RemoteLease]:
    """The lease that this process has on a collection, else one of its own; for one publisher at a time."""
    while lease := _held.get((store.address, name)):
        with lease.publisher:
            if _held.get((store.address, name)) is lease:
                yield lease
                return
    with held(store, name, wait_s=2 * TERM_S) as lease, lease.publisher:
        yield lease


class RemoteLease:
    """A line of CURRENT. All that is done to it is a write on the condition that nobody else wrote since."""

    def __init__(self, store: ObjectStore, name: str) -> None:
        self._store = store
        self._name = name
        self._key = f"{name}/{CURRENT}"
        since = datetime.now(UTC).isoformat(timespec="seconds")
        self._holder = Holder(uuid.uuid4().hex, os.getpid(), socket.gethostname(), since, 0)
        self.publisher = RLock()
        self.ended = Event()

    def take(self, wait_s: float) -> Current:
        """Takes what is free or has ended."""
        until = time.monotonic() + wait_s
        while True:
            try:
                return self._changed(self._taken)
            except _HeldError as error:
                left_s = until - time.monotonic()
                if left_s <= 0:
                    raise being_written(self._name, str(error), wait_s) from None
            time.sleep(min(POLL_S, left_s))

    def keep(self) -> None:
        """Renews it until it has ended, or was lost."""
        while not self.ended.wait(TERM_S / RENEWALS):
            try:
                self._changed(self._renewed)
            except StoreError:
                continue  # There are more tries in a term.
            except CollectionError:
                return

    def release(self) -> None:
        """Gives it back. Raises CollectionError where it was lost."""
        self._changed(lambda before: replace(self._mine(before), holder=None))

    def publish(self, generation: int, checksum: str, manifest: bytes) -> None:
        """Puts the generation after the one in force in its place. Raises CollectionError."""
        key = f"{self._name}/manifests/{generation:06d}.json"
        if not self._store.put_if(key, manifest, None):
            written = self._store.get(key)
            if written is None or written[0] != manifest:
                raise self._lost()

        def published(before: Current) -> Current:
            if (self._mine(before).generation, before.checksum) == (generation, checksum):
                return before
            if before.generation != generation - 1:
                raise self._lost()
            return replace(before, generation=generation, checksum=checksum)

        self._changed(published)

    def _changed(self, change: Callable[[Current], Current]) -> Current:
        """CURRENT after a change of what it is. Where nobody knows whether it was written, looks again."""
        failure = StoreError(f"Others write {self._store.place(self._key)} all the time: run it again.")
        for _ in range(_LOOKS):
            found = self._store.get(self._key)
            before = read_lines(found[0], self._store.place(self._key)) if found else Current()
            after = change(before)
            if after == before:
                return after
            try:
                if self._store.put_if(self._key, after.lines(leased=True), found[1] if found else None):
                    return after
            except StoreError as error:
                failure = error
        raise failure

    def _taken(self, before: Current) -> Current:
        holder = before.holder
        if holder and time.time() < holder.until:
            if holder.token == self._holder.token:
                return before
            raise _HeldError(str(holder))
        return replace(before, holder=self._signed())

    def _renewed(self, before: Current) -> Current:
        return replace(self._mine(before), holder=self._signed())

    def _signed(self) -> Holder:
        return replace(self._holder, until=time.time() + TERM_S)

    def _mine(self, before: Current) -> Current:
        if before.holder is None or before.holder.token != self._holder.token:
            raise self._lost()
        return before

    def _lost(self) -> CollectionError:
        return CollectionError(
            f"Collection {self._name!r} changed meanwhile: another writer took it over, because the lease of "
            "this one was not renewed in time; run it again."
        )


class _HeldError(Exception):
    """Another holds it."""


def _remove_later(store: ObjectStore, name: str, generation: int) -> None:
    """Removes manifests that a writer wrote who then lost the lease, or died."""
    manifests = store.sizes(f"{name}/manifests")
    store.remove(key for key in manifests if _number(key) > generation)


def _number(key: str) -> int:
    stem = key.rpartition("/")[2].removesuffix(".json")
    return int(stem) if stem.isdigit() else 0

"""Objects of an S3-compatible store, below the address of a root. The only door to obstore."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

from mrag.errors import SettingsError, StoreError
from mrag.settings.address import StoreAddress, store_address

RETRIES = 5
CHUNK_BYTES = 8 << 20


def store_of(root: Path) -> ObjectStore | None:
    """The store that a root is the address of; None for a folder."""
    address = store_address(root)
    return None if address is None else _opened(address)


@cache
def _opened(address: StoreAddress) -> ObjectStore:
    return ObjectStore(address)


class ObjectStore:
    """Objects by their keys, paths below the address; a reader sees all bytes of one or none.

    Region, endpoint and credentials that the address does not have are the environment's. Where a connection
    ends or the server is busy, the library asks again, for some seconds. Every method raises StoreError where
    that does not help.
    """

    def __init__(self, address: StoreAddress) -> None:
        self.address = address
        self._store = _connected(address)

    def place(self, key: str) -> str:
        """An object as it is told to people."""
        return f"{self.address}/{key}"

    def get(self, key: str) -> tuple[bytes, str] | None:
        """The bytes of an object and its version; None where there is none."""
        with self._asked(key):
            try:
                found = self._store.get(key)
                return bytes(found.bytes()), found.meta["e_tag"]
            except FileNotFoundError:
                return None

    def put(self, key: str, content: bytes | Path) -> None:
        """Makes an object of these bytes, or of those of a file, in the place of what is there."""
        with self._asked(key):
            self._store.put(key, content, chunk_size=CHUNK_BYTES)

    def put_if(self, key: str, content: bytes, version: str | None) -> bool:
        """The same if what is there has this version (None: if there is nothing), and whether it had.

        A connection may end before the store has told that it did: then False, or StoreError, is all that is
        known. Look what is there.
        """
        mode: Any = "create" if version is None else {"e_tag": version}
        with self._asked(key):
            try:
                self._store.put(key, content, mode=mode)
            except (_errors().AlreadyExistsError, _errors().PreconditionError):
                return False
        return True

    def sizes(self, folder: str) -> dict[str, int]:
        """Bytes of every object below a folder, by its key."""
        with self._asked(folder):
            return {found["path"]: found["size"] for page in self._store.list(folder) for found in page}

    def folders(self, folder: str = "") -> list[str]:
        """Names of the folders right below a folder."""
        with self._asked(folder):
            found = self._store.list_with_delimiter(folder)["common_prefixes"]
        return [path.rstrip("/").rpartition("/")[2] for path in found]

    def remove(self, keys: Iterable[str]) -> None:
        """Removes objects, whether they are there or not."""
        if listed := list(keys):
            with self._asked(listed[0]):
                self._store.delete(listed)

    def download(self, key: str, into: int, start: int, size: int) -> None:
        """Writes `size` bytes of an object, from `start`, to the same place of an open file (descriptor)."""
        with self._asked(key):
            content = memoryview(self._store.get_range(key, start=start, length=size))
        os.pwrite(into, content, start)

    @contextmanager
    def _asked(self, key: str) -> Iterator[None]:
        """Around asking the store: what it ends with is a StoreError that says what to do."""
        try:
            yield
        except (_errors().BaseError, OSError) as error:
            reason = " ".join(str(error).partition("\n\nDebug source")[0].split())[:300]
            raise StoreError(
                f"The object store does not give or take {self.place(key)} ({reason}): see that bucket, "
                "endpoint (AWS_ENDPOINT_URL) and credentials (AWS_ACCESS_KEY_ID ...) are right, and run "
                "again; what was published before is untouched."
            ) from None


def _connected(address: StoreAddress) -> Any:
    from obstore.store import S3Store

    given = {"region": address.region, "aws_endpoint_url_s3": address.endpoint}
    config: Any = {name: value for name, value in given.items() if value}
    try:
        return S3Store(
            address.bucket,
            prefix=address.prefix or None,
            config=config,
            client_options={"allow_http": True, "connect_timeout": "5s", "timeout": "60s"},
            retry_config={"max_retries": RETRIES, "retry_timeout": timedelta(seconds=60)},
        )
    except _errors().BaseError as error:
        raise SettingsError(f"collection.root is {address}, which can't be used: {error}.") from None


def _errors() -> Any:
    from obstore import exceptions

    return exceptions

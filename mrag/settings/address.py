"""The address of collections in an object store, which `collection.root` may have in place of a folder.

A root is a `Path` everywhere. An address is one too: it is kept as it was written (but for the second slash,
which no path keeps), so that it can go wherever a folder goes, to a worker on another machine among others,
and each process finds from it alone the store and its own cache.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(.*)", re.DOTALL)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"[A-Za-z0-9_.=-]+(/[A-Za-z0-9_.=-]+)*")
_FORM = "s3://bucket/prefix?region=...&scheme=http&endpoint_override=host:port&cache_gib=..."


@dataclass(frozen=True)
class StoreAddress:
    """What an address says; `endpoint` is a URL. What it leaves out is the environment's (`AWS_...`)."""

    bucket: str
    prefix: str = ""
    region: str | None = None
    endpoint: str | None = None
    cache_gib: float = 32

    def __str__(self) -> str:
        return "s3://" + "/".join(filter(None, (self.bucket, self.prefix)))


def store_address(root: Path) -> StoreAddress | None:
    """None for a folder. Raises ValueError for what is meant as an address and is none."""
    found = _ADDRESS.fullmatch(str(root))
    if not found:
        return None
    if found[1].lower() != "s3":
        raise ValueError(f"{found[1]}: is no kind of object store that is known; give a folder or {_FORM}")
    place, _, query = found[2].lstrip("/").partition("?")
    bucket, _, prefix = place.partition("/")
    if not _BUCKET.fullmatch(bucket) or (prefix and not _PREFIX.fullmatch(prefix)) or ".." in prefix:
        raise ValueError(f"{place!r} is no bucket with a prefix of letters, digits and _ . = - /")
    given = dict(parse_qsl(query, keep_blank_values=True))
    unknown = given.keys() - {"region", "scheme", "endpoint_override", "cache_gib"}
    if unknown:
        raise ValueError(f"{min(unknown)} is no parameter of an address; the form is {_FORM}")
    return StoreAddress(bucket, prefix, given.get("region"), _endpoint(given), _gib(given))


def shown(root: Path) -> str:
    """A root as it is told to people."""
    address = store_address(root)
    return str(root) if address is None else str(address)


def _endpoint(given: dict[str, str]) -> str | None:
    scheme, host = given.get("scheme", "https"), given.get("endpoint_override")
    if scheme not in ("http", "https") or (host is not None and not re.fullmatch(r"[\w.-]+(:\d+)?", host)):
        raise ValueError(f"{scheme}://{host or ''} is no endpoint; the form is {_FORM}")
    return f"{scheme}://{host}" if host else None


def _gib(given: dict[str, str]) -> float:
    text = given.get("cache_gib", "32")
    if not re.fullmatch(r"\d+(\.\d+)?", text):
        raise ValueError(f"cache_gib is {text!r} and no number of GiB")
    return float(text)

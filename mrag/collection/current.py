"""CURRENT: which generation is in force, and in an object store also who may write the next one.

Three lines: the generation, its manifest's checksum, and in a store the lease, `{}` where nobody has it. All
of it is one object, which is what makes a lease safe: who takes it over changes what the holder before has
read, and no publication of that one can succeed any more, however late it comes.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from mrag.collection.files import Files
from mrag.collection.storage import damaged
from mrag.errors import CollectionError

CURRENT = "CURRENT"
_LINES = re.compile(r"(\d{6,18})\n(?:([0-9a-f]{64})\n)?(\{[^\n]*\}\n)?")


@dataclass(frozen=True)
class Holder:
    """Who holds the lease, until when (seconds since 1970, by the holder's clock) if it is not renewed."""

    token: str
    process: int
    host: str
    since: str
    until: float

    def __str__(self) -> str:
        return f"process {self.process} on {self.host} since {self.since}"


@dataclass(frozen=True)
class Current:
    """Generation 0 is none yet: somebody only holds the lease, or held it."""

    generation: int = 0
    checksum: str | None = None
    holder: Holder | None = None

    def lines(self, leased: bool = False) -> bytes:
        """As it is written; `leased` with the third line."""
        lines = [f"{self.generation:06d}", *filter(None, [self.checksum])]
        if leased:
            lines.append(json.dumps(asdict(self.holder) if self.holder else {}))
        return "".join(f"{line}\n" for line in lines).encode("ascii")


def read_current(files: Files) -> Current:
    """That of a collection; generation 0 where it has none. Raises CollectionError for a damaged one."""
    place = files.place(CURRENT)
    try:
        content = files.read(CURRENT)
    except NotADirectoryError:
        raise CollectionError(
            f"{Path(place).parent} can't be a collection, because a file stands there or above it: "
            "set collection.root to a folder."
        ) from None
    except OSError as error:
        raise damaged(place, f"can't be read ({error.strerror})") from None
    return Current() if content is None else read_lines(content, place)


def read_lines(content: bytes, place: Path | str) -> Current:
    """What was written. Raises CollectionError for a damaged one, which `place` names."""
    found = _LINES.fullmatch(content.decode("ascii", "replace"))
    if not found or not (int(found[1]) or found[3]):
        raise damaged(place, "does not name a generation")
    try:
        lease = json.loads(found[3] or "{}")
        return Current(int(found[1]), found[2], Holder(**lease) if lease else None)
    except (ValueError, TypeError, RecursionError):
        raise damaged(place, "has a lease that can't be understood") from None

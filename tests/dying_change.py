"""Changes of a collection that are killed, as a program: `python -m tests.dying_change BASE INTO CHANGE`.

Copies the root BASE to INTO/<moment> for twenty moments of the change and makes it there, ending as by
`kill -9` just before the moment's access to the disk; INTO/0 is changed undisturbed. Prints how many
accesses there are.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from mrag.collection import Copy, publish
from mrag.indexing.compact import compact
from mrag.indexing.delete import delete_documents
from mrag.settings import Settings, parse_settings
from tests.collection_corpus import STAMP
from tests.disk_accesses import watched

MOMENTS = 20
SEGMENT = "segment.pickle"


def settings(root: Path) -> Settings:
    return parse_settings({"collection": {"root": root, "name": "c", "shards": 2}})


def change(name: str, root: Path) -> None:
    """One change; made again it leaves what it made the first time."""
    if name == "publish":
        publish(root, "c", STAMP, pickle.loads((root / SEGMENT).read_bytes()), {"d1"}, {"copy": Copy("d4")})
    elif name == "delete":
        delete_documents(settings(root), ["d2", "d3"])
    else:
        compact(settings(root))


def counted(root: Path, work: Callable[[], None], moment: int) -> int:
    """Does the work and counts its accesses to the disk below the root; dies before the `moment`-th."""
    count = 0

    def reached(_: str) -> None:
        nonlocal count
        count += 1
        if count == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    with watched(root, reached):
        work()
    return count


def main(base: Path, into: Path, name: str) -> None:
    total = run(base, into / "0", name, 0)
    moments = sorted({1 + at * (total - 1) // (MOMENTS - 1) for at in range(MOMENTS)})
    for moment in moments:
        run(base, into / str(moment), name, moment)
    print(total)


def run(base: Path, root: Path, name: str, moment: int) -> int:
    """The change on a copy, by a child: nothing here has started Java, which no child could use then."""
    shutil.copytree(base, root)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        total = counted(root, lambda: change(name, root), moment)
        os.write(writer, str(total).encode())
        os._exit(0)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    assert (os.WIFSIGNALED(status), status == 0) == (moment > 0, moment == 0), (moment, status)
    return int(os.read(reader, 20) or 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])

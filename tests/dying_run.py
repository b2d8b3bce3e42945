"""A run that kills itself, as a program: `python -m tests.dying_run FOLDER ROOT CALLS [WHERE MOMENT]`.

Every call of its scripted model adds a byte to the file CALLS. WHERE is one of MOMENTS; at the MOMENT-th time
it is reached, the process ends as by `kill -9`.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mrag.indexing import ledger, run
from mrag.indexing.run import index_folder
from mrag.models.language_model import Request
from mrag.models.scripted import ScriptedModel
from mrag.models.tokens import ByteTokenizer
from mrag.settings import parse_settings
from tests.marker_replies import numbers_of, one_each, record, reply
from tests.unit.test_indexing_run import HashEncoder

MOMENTS = ("asked", "before an entry", "after an entry", "before publishing", "after publishing")
USELESS = "says nothing of use"  # A window with these words has a reply without records, and a fallback.


def main(folder: str, root: str, calls: str, where: str = "", moment: str = "0") -> None:
    """One run; prints how its documents ended."""
    times: dict[str, itertools.count[int]] = {name: itertools.count(1) for name in MOMENTS}

    def reached(name: str) -> None:
        if name == where and next(times[name]) == int(moment):
            os.kill(os.getpid(), signal.SIGKILL)

    def answer(request: Request) -> Any:
        with open(calls, "ab", buffering=0) as file:
            file.write(b".")
        reached("asked")
        # The last unit of a window is left out at first, so that gaps are asked for as well.
        numbers = numbers_of(request)
        if USELESS in request.messages[-1].content:
            return reply()
        return reply(*map(record, numbers[:-1])) if len(numbers) > 1 else one_each(request)

    async def opened(_: object) -> ScriptedModel:
        return ScriptedModel(answer)

    def between(before: str, after: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any) -> Any:
            reached(before)
            result = work(*arguments)
            reached(after)
            return result

        return watched

    put = between("before an entry", "after an entry", ledger.Entries.put)
    ledger.Entries.put = put  # type: ignore[method-assign]
    run.publish = between("before publishing", "after publishing", run.publish)
    run.open_encoder = lambda _: HashEncoder()  # type: ignore[assignment, return-value]
    run.load_tokenizer = lambda _: ByteTokenizer()  # type: ignore[assignment, return-value]
    run.open_reviving_model = opened  # type: ignore[assignment]
    tree = {
        "method": "ours",
        "collection": {"root": root},
        "extraction": {"window_units": 3, "retries": 2},
        "language_model": {"engine": "scripted", "replies": "answers"},
    }
    report = asyncio.run(index_folder(parse_settings(tree), Path(folder)))
    print({status.value: count for status, count in report.counts.items() if count}, report.reused.calls)


if __name__ == "__main__":
    main(*sys.argv[1:])

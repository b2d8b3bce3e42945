"""A job that was asked for over HTTP: `/v1/jobs` submits it, with what it is to do in its environment."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from io import TextIOBase
from typing import Any, TextIO

from jobs.index import index, quietly
from jobs.served import index_served
from mrag.collection.filter_forms import parse_filter
from mrag.documents.jail import jailed, without_paths
from mrag.errors import MragError
from mrag.indexing.delete import Deletion, delete_documents
from mrag.indexing.report import Report
from mrag.settings import Settings, parse_settings
from serve.connection import connect
from serve.faults import fault, fault_of
from serve.job_values import DeleteBody, IndexBody, Line, Order, SyncBody, unpacked
from serve.ray_jobs import ORDER

FAILED = 2
IDS = ("id", "removed", "deleted", "unknown", "promoted", "bared")
"""Of a report: names of documents, and no sentences."""


def carried_out(order: Order, out: TextIO) -> int:
    """Does it, and writes what is told about it to `out`. The exit code is that of the same command."""
    settings = parse_settings(order.settings)
    told = Told(out, settings)
    try:
        with redirect_stdout(told):
            result = done(settings, order.asked)
    except MragError as error:
        code, field = fault_of(error)[1].code, getattr(error, "field", None)
        told.say(Line(error=fault(code, told.safe(str(error)), field)))
        return FAILED
    told.say(Line(report=told.without_paths(result.as_dict())))
    return result.exit_code


def done(settings: Settings, asked: IndexBody | SyncBody | DeleteBody) -> Report | Deletion:
    """What came of it. Raises MragError."""
    if isinstance(asked, DeleteBody):
        filter_ = parse_filter(asked.filter or {})
        return delete_documents(settings, asked.ids, filter_, asked.purge, asked.wait_s)
    folder = jailed(asked.folder, settings.serve.jobs.roots)
    quietly()
    connect()
    run = index_served if settings.job.served else index
    return run(settings, folder, asked.max_llm_tokens, asked.kind == "sync", asked.wait_s)


class Told(TextIOBase):
    """Standard output while a job runs: its lines are told to who asked, paths of the server taken out."""

    def __init__(self, out: TextIO, settings: Settings) -> None:
        self._out = out
        self._roots = settings.serve.jobs.roots
        self._secret = settings.collection.root
        self._begun = ""

    def write(self, text: str) -> int:
        """Whole lines are passed on."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in filter(str.strip, lines):
            self.say(Line(progress=self.safe(line)))
        return len(text)

    def say(self, line: Line) -> None:
        """One line of the log, at one stroke: standard error, which is in it too, may have begun another."""
        self._out.write(f"\n{line.written()}\n")
        self._out.flush()

    def safe(self, text: str) -> str:
        """The text as it may be told."""
        return without_paths(text, self._roots, self._secret)

    def without_paths(self, value: Any, key: str = "") -> Any:
        """The values of a report; ids of documents stay what they are."""
        if isinstance(value, str):
            return value if key in IDS else self.safe(value)
        if isinstance(value, dict):
            return {name: self.without_paths(part, name) for name, part in value.items()}
        return [self.without_paths(part, key) for part in value] if isinstance(value, list | tuple) else value


def main() -> None:
    """The job's process."""
    raise SystemExit(carried_out(unpacked(os.environ[ORDER]), sys.stdout))


if __name__ == "__main__":
    main()

"""The HTTP API over a graph and a library whose replies are fixed: no Ray, no engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from mrag.collection import Counts, Description, Overview
from mrag.errors import MragError, NotFoundError
from mrag.query.evidence import Extraction
from mrag.query.generate import Generated, Reading
from mrag.query.library import CoveredUnit, OpenedDocument, PointingRecord, Reloaded
from mrag.query.pipeline import Pipeline
from mrag.query.question import Question
from mrag.query.select import Selection
from mrag.schema import (
    Candidate,
    DocumentInfo,
    EvidenceRow,
    EvidenceTable,
    Pool,
    Record,
    Source,
    SourceUnit,
    Verdict,
)
from mrag.settings import SaneReader, Settings, token_hash
from serve.access import Key, Keyring
from serve.job_desk import Runner
from serve.readiness import Probe
from serve.routes import create_api

UNIT = SourceUnit("a.md", 1, 0, 14, "Ada built it.", ("Makers",))
RECORD = Record("r1", "a.md", ("Who built it?",), "Ada built it.", (1,))
DOCUMENT = DocumentInfo("a.md", "A", {"date": "2024-03-01", "tags": ["boat"]})
CANDIDATE = Candidate(DOCUMENT, (UNIT,), (RECORD,), "Who built it?", 0.5, {"dense": 0.5}, (1,))
SOURCE = Source("a.md", "A", (1,), date="2024-03-01")
ROW = EvidenceRow({"fact": "Ada built it"}, "Ada built it.", Verdict.VERIFIED, SOURCE)


class Stages:
    """A graph whose replies are fixed; keeps the questions, and fails where it is told to."""

    def __init__(self, error: MragError | None = None) -> None:
        self.error = error
        self.asked: list[Question] = []

    async def retrieve(self, question: Question, w: int) -> Pool:
        self.asked.append(question)
        if self.error:
            raise self.error
        return Pool((CANDIDATE,) * min(w, 1), 7)

    async def select(
        self, question: str, pool: Pool, reader: SaneReader, timeout_s: float | None
    ) -> Selection:
        return Selection(pool.candidates[: reader.k])

    async def extract(
        self,
        question: str,
        candidates: Sequence[Candidate],
        reader: SaneReader,
        around: Sequence[Candidate],
        timeout_s: float | None,
    ) -> Extraction:
        return Extraction(EvidenceTable("ATOMIC", ("fact",), (ROW,)))

    async def generate(self, question: str, reading: Reading, timeout_s: float | None) -> Generated:
        return Generated("Ada")


# --------------------------------------------------------------------------- the library

COUNTS = Counts(documents=1, units=2, records=2, keys=2)
LISTED = (
    Overview("default", 7, "markers", "keys+units", COUNTS),
    Overview("secret", 2, "units", "keys", COUNTS),
)
POINTING = PointingRecord("r1", ("Who built it?",), "Ada built it.", False)
TEXT = "Ada built it.\n\nIt floats."
COVERED = (
    CoveredUnit(1, 0, 13, ("Makers",), None, (POINTING,)),
    CoveredUnit(2, 15, 25, (), 3, (PointingRecord("r2", ("It floats.",), "It floats.", True),)),
)


class Shelves:
    """Knows every document whose id begins with `a`; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    async def collections(self) -> tuple[Overview, ...]:
        return LISTED

    async def overview(self, name: str) -> Overview:
        found = [one for one in LISTED if one.name == name]
        if not found:
            raise NotFoundError(
                "collection", f"There is no collection {name!r} in collections: index one first."
            )
        return found[0]

    async def describe(self, name: str) -> Description:
        one = await self.overview(name)
        about: dict[str, Any] = dict.fromkeys(("encoder", "analyzer", "key_text"), "x")
        return Description(
            **vars(one),
            **about,
            generations=(6, 7),
            removal=0,
            segments=(),
            bytes=0,
            dead_share=0.0,
            duplicates=0,
            dimension=16,
            built_with={"name": one.builder},
        )

    async def document(self, collection: str, document_id: str) -> OpenedDocument:
        self.asked.append((collection, document_id))
        await self.overview(collection)
        if not document_id.startswith("a"):
            raise NotFoundError("document", f"Collection {collection!r} has no document {document_id!r}.")
        return OpenedDocument(document_id, collection, 7, "A", {"year": 1900}, TEXT, COVERED)

    async def reload(self, name: str) -> Reloaded:
        newest = (await self.overview(name)).generation
        return Reloaded(name, newest, newest)


def keyring(token: str | None = None, **keys: Key) -> Keyring:
    """Of a token that may everything, and of others by their tokens; of none at all, the machine's own."""
    named: Mapping[str, Key] = {**({token: Key("all")} if token else {}), **keys}
    return Keyring({token_hash(secret): key for secret, key in named.items()})


# --------------------------------------------------------------------------- together


def served(
    stages: Stages | None = None,
    settings: Settings | None = None,
    keys: Keyring | None = None,
    shelves: Shelves | None = None,
    runner: Runner | None = None,
    probe: Probe | None = None,
) -> FastAPI:
    """The application over stages and a library whose replies are fixed."""
    graph = stages or Stages()
    pipeline = Pipeline(graph.retrieve, graph.select, graph.extract, graph.generate)
    library, ring = shelves or Shelves(), keys or Keyring()
    return create_api(pipeline, library, settings or Settings(), ring, runner=runner, probe=probe)


def client(
    stages: Stages | None = None,
    settings: Settings | None = None,
    token: str | None = None,
    caller: str = "127.0.0.1",
    shelves: Shelves | None = None,
    keys: Mapping[str, Key] | None = None,
    runner: Runner | None = None,
) -> httpx.AsyncClient:
    """One that calls the application without a network."""
    api = served(stages, settings, keyring(token, **(keys or {})), shelves, runner)
    transport = httpx.ASGITransport(app=api, client=(caller, 1), raise_app_exceptions=True)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost:8000")


@contextmanager
def listening(api: FastAPI) -> Iterator[str]:
    """The address of the application on a port of loopback, served by a true server."""
    server = uvicorn.Server(uvicorn.Config(api, host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()

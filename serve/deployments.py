"""The stages as deployments: each holds one core object of `mrag` and calls one method of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from mrag.collection import Description, Overview
from mrag.collection.manifest import Manifest, Part, existing_manifest
from mrag.collection.sparse import SparseStatistics
from mrag.errors import MragError
from mrag.models.encoder import Kind
from mrag.models.language_model import Choice, Completion, LanguageModel, Likelihood, Request
from mrag.models.opening import counting_model, open_encoder, open_reviving_model
from mrag.query.blueprints import load_blueprints
from mrag.query.evidence import EvidenceExtractor, Extraction
from mrag.query.generate import Generated, Generator, Reading
from mrag.query.library import Library, OpenedDocument, Reloaded
from mrag.query.neighbours import Around, Neighbours
from mrag.query.opened import OpenCollections
from mrag.query.question import Question
from mrag.query.retrieve import Retriever
from mrag.query.rewrite import Rewriter, Rewritten
from mrag.query.select import Selection, Selector
from mrag.query.spread import Hits, PartSearcher, Spread
from mrag.query.streaming import as_told
from mrag.schema import Candidate, Pool, Query, Vectors
from mrag.settings import LanguageModelSettings, SaneReader, Settings, StageName
from serve.batching import Together
from serve.calls import Limit
from serve.metrics import CollectionMeters
from serve.remote_models import RemoteEncoder, RemoteLanguageModel
from serve.remote_searcher import RemoteSearcher

WARM = Query("warm", depth=1, legs=("sparse",))


class EncoderDeployment:
    """The encoder of questions; those that wait are encoded together."""

    def __init__(self, settings: Settings) -> None:
        self._encoder = open_encoder(settings.encoder)
        self._encoder.encode(["ready"], "query")
        self._together = Together(self._encoder.encode, settings.encoder.batch)

    async def encode(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """Unit rows, in the order given."""
        return await self._together.encode(texts, kind)

    async def fingerprint(self) -> str:
        """What its vectors can be compared with."""
        return await asyncio.to_thread(lambda: self._encoder.fingerprint)


class LanguageModelDeployment:
    """One engine, which the stages share that ask its model; opened anew when it dies.

    Ray Serve awaits an asynchronous constructor, so that a replica is ready when its engine is.
    """

    async def __init__(self, settings: LanguageModelSettings) -> None:  # type: ignore[misc]
        self._model = await open_reviving_model(settings)

    async def identity(self) -> str:
        """The engine's name."""
        return self._model.name

    async def complete(self, request: Request) -> Completion:
        """The whole reply to one request."""
        return await self._model.complete(request)

    async def stream(self, request: Request) -> AsyncIterator[str]:
        """The reply in pieces."""
        async for piece in self._model.stream(request):
            yield piece

    async def choose(self, request: Request, labels: Sequence[str]) -> Choice:
        """The next token among `labels`."""
        return await self._model.choose(request, labels)

    async def likelihood(self, request: Request, reply: str) -> Likelihood:
        """How likely a given reply is."""
        return await self._model.likelihood(request, reply)


class PartDeployment:
    """Searches its part of every collection; ready when Java has started."""

    async def __init__(self, settings: Settings, part: Part) -> None:  # type: ignore[misc]
        place = settings.collection
        self._core = PartSearcher(place.root, part, fingerprint(settings), settings.dense, place.verify)
        with contextlib.suppress(MragError):
            generation = existing_manifest(place.root, place.name).generation
            await self._core.search(place.name, generation, WARM, None)

    async def prepare(self, name: str, generation: int) -> None:
        """Opens its part of a generation."""
        await self._core.prepare(name, generation)

    async def statistics(self, name: str, generation: int, query: Query) -> SparseStatistics:
        """What it adds to the collection's statistics for the query."""
        return await self._core.statistics(name, generation, query)

    async def search(
        self, name: str, generation: int, query: Query, statistics: SparseStatistics | None
    ) -> Hits:
        """Its best records of each leg."""
        return await self._core.search(name, generation, query, statistics)


class RetrieverDeployment:
    """Opens collections on demand, finds the pool, and shows what they hold.

    It searches by itself, and is ready when Java has started; or by the `parts`.
    """

    async def __init__(self, settings: Settings, encoder: Any, *parts: Any) -> None:  # type: ignore[misc]
        limit = Limit("encoder", settings.serve.encoder.timeout_s)
        place, encode = settings.collection, RemoteEncoder(encoder, limit).encode
        opening = partial(OpenCollections, place.root, fingerprint(settings), verify=place.verify)
        watch = CollectionMeters().opened
        if parts:
            spread = Spread(
                [RemoteSearcher(part) for part in parts],
                settings.serve.part_timeout_s,
                settings.serve.partial,
            )
            prepare = awaited(spread.prepare)
            collections = opening(legs=(), prepare=prepare, watch=watch)
            self._core = Retriever(collections, encode, spread.search)
        else:
            collections = opening(settings.dense, watch=watch)
            await asyncio.to_thread(warm, collections, settings)
            self._core = Retriever(collections, encode)
        self._neighbours = Neighbours(collections)
        self._library = Library(place.root, collections)

    async def retrieve(self, question: Question, w: int) -> Pool:
        """The w best candidates."""
        return await self._core.retrieve(question, w)

    async def around(
        self, question: Question, selected: Sequence[Candidate], generation: int, n: int
    ) -> Around:
        """The units beside those of candidates."""
        return await self._neighbours.around(question, selected, generation, n)

    async def collections(self) -> tuple[Overview, ...]:
        """The collections below the root."""
        return await self._library.collections()

    async def overview(self, name: str) -> Overview:
        """One of them."""
        return await self._library.overview(name)

    async def describe(self, name: str) -> Description:
        """One of them, at length."""
        return await self._library.describe(name)

    async def document(self, collection: str, document_id: str) -> OpenedDocument:
        """One document, whole."""
        return await self._library.document(collection, document_id)

    async def reload(self, name: str) -> Reloaded:
        """Opens what is in force."""
        return await self._library.reload(name)


def fingerprint(settings: Settings) -> str:
    """Of the encoder that the collections must have."""
    return open_encoder(settings.encoder.model_copy(update={"device": "cpu"})).fingerprint


def awaited(work: Callable[[Manifest], Coroutine[Any, Any, None]]) -> Callable[[Manifest], None]:
    """The coroutine function for threads beside this event loop."""
    loop = asyncio.get_running_loop()
    return lambda manifest: asyncio.run_coroutine_threadsafe(work(manifest), loop).result()


def warm(collections: OpenCollections, settings: Settings) -> None:
    """Opens the configured collection and searches it by words, while the engine loads in its own process.

    Starting Java takes 20 seconds on two cores: the first question need not wait for it. A collection that is
    not there yet, or can't be opened, is the business of the question that asks for it.
    """
    with contextlib.suppress(MragError):
        collections(settings.collection.name).search(WARM)


class ModelStage:
    """A stage that asks a served engine; ready when it can count that engine's tokens."""

    stage: StageName
    core: Callable[[LanguageModel, Settings], Any]

    async def __init__(self, settings: Settings, engine: Any) -> None:  # type: ignore[misc]
        counter = await counting_model(settings.model_of(self.stage))
        limit = Limit("language_model", settings.serve.language_model.timeout_s)
        self._core = type(self).core(RemoteLanguageModel(engine, counter, limit), settings)


class SelectorDeployment(ModelStage):
    """Chooses k of the pool by their synopses."""

    stage = "select"

    @staticmethod
    def core(model: LanguageModel, settings: Settings) -> Selector:
        """The selector with its limits."""
        return Selector(model)

    async def select(
        self, question: str, pool: Pool, reader: SaneReader, timeout_s: float | None
    ) -> Selection:
        """The k candidates to read."""
        selection: Selection = await self._core.select(question, pool, reader, timeout_s)
        return selection


class ExtractorDeployment(ModelStage):
    """Extracts the evidence table and verifies it."""

    stage = "extract"

    @staticmethod
    def core(model: LanguageModel, settings: Settings) -> EvidenceExtractor:
        """The extractor with the blueprints of the settings."""
        return EvidenceExtractor(model, load_blueprints(settings.blueprints_folder))

    async def extract(
        self,
        question: str,
        candidates: Sequence[Candidate],
        reader: SaneReader,
        around: Sequence[Candidate],
        timeout_s: float | None,
    ) -> Extraction:
        """The table of one call."""
        extraction: Extraction = await self._core.extract(question, candidates, reader, around, timeout_s)
        return extraction


class GeneratorDeployment(ModelStage):
    """Answers from values, from a table, or from raw units; rewrites questions that follow others."""

    stage = "generate"

    @staticmethod
    def core(model: LanguageModel, settings: Settings) -> tuple[Generator, Rewriter]:
        """The generator and the rewriter."""
        return Generator(model), Rewriter(model)

    async def ready(self, timeout_s: float) -> None:
        """Has the model write one token."""
        await self._core[0].ready(timeout_s)

    async def generate(self, question: str, reading: Reading, timeout_s: float | None) -> Generated:
        """The answer's text and what it was read from."""
        generated: Generated = await self._core[0].generate(question, reading, timeout_s)
        return generated

    async def stream(
        self, question: str, reading: Reading, timeout_s: float | None
    ) -> AsyncIterator[str | Generated]:
        """The text in pieces, and last what `generate` returns."""
        generate = self._core[0].generate
        work = as_told(lambda tell: generate(question, reading, timeout_s, tell))
        async with contextlib.aclosing(work) as pieces:
            async for piece in pieces:
                yield piece

    async def rewrite(self, question: Question, timeout_s: float | None) -> Rewritten:
        """The question as it can be understood alone."""
        rewritten: Rewritten = await self._core[1].rewrite(question, timeout_s)
        return rewritten

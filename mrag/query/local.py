"""A pipeline in one process, for the command line and for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Protocol, get_args

from mrag.collection import Collection
from mrag.models.encoder import Encoder, Kind
from mrag.models.language_model import LanguageModel
from mrag.query.blueprints import load_blueprints
from mrag.query.evidence import EvidenceExtractor
from mrag.query.found import Searchable
from mrag.query.generate import Generator
from mrag.query.neighbours import Neighbours, Readable
from mrag.query.opened import OpenCollections
from mrag.query.pipeline import Pipeline
from mrag.query.retrieve import Encode, Retriever
from mrag.query.rewrite import Rewriter
from mrag.query.select import Selector
from mrag.schema import Vectors
from mrag.settings import Settings, StageName


class Opened(Searchable, Readable, Protocol):
    """An open collection as all stages need it."""


def local_pipeline(
    settings: Settings,
    model: LanguageModel | Mapping[StageName, LanguageModel],
    encoder: Encoder,
    open_collection: Callable[[str], Opened] | None = None,
) -> Pipeline:
    """All stages as objects of this process, over the collections below the root of the settings.

    They ask one model, or one each.
    """
    models = model if isinstance(model, Mapping) else dict.fromkeys(get_args(StageName), model)
    opener = open_collection or _opener(settings, encoder.fingerprint)
    generator = Generator(models["generate"])
    return Pipeline(
        Retriever(opener, encoding(encoder)).retrieve,
        Selector(models["select"]).select,
        EvidenceExtractor(models["extract"], load_blueprints(settings.blueprints_folder)).extract,
        generator.generate,
        Neighbours(opener).around,
        generator.generate,
        Rewriter(models["generate"]).rewrite,
    )


def _opener(settings: Settings, fingerprint: str) -> Callable[[str], Collection]:
    """Opens the generation in force, whatever it is by then, or once and for all that of the settings."""
    place = settings.collection
    if place.generation is None:
        return OpenCollections(place.root, fingerprint, settings.dense, verify=place.verify)

    @cache
    def earlier(name: str) -> Collection:
        named = place.model_copy(update={"name": name})
        return Collection.at(named, encoder_fingerprint=fingerprint, dense=settings.dense)

    return earlier


def encoding(encoder: Encoder) -> Encode:
    """The encoder as the retriever calls it: outside of the event loop."""

    async def encode(texts: Sequence[str], kind: Kind) -> Vectors:
        return await asyncio.to_thread(encoder.encode, texts, kind)

    return encode

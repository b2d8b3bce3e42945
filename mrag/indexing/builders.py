"""The builder that a method names."""

from __future__ import annotations

from mrag.indexing.build_fixed import Fixed
from mrag.indexing.build_markers import Markers
from mrag.indexing.build_units import Units
from mrag.indexing.builder import Builder
from mrag.models.tokens import Tokenizer
from mrag.settings import FixedBuilder, LanguageModelSettings, MarkersBuilder, ScriptedSettings, Settings


def make_builder(settings: Settings, tokenizer: Tokenizer) -> Builder:
    """The builder of `settings.method`. `tokenizer` is the encoder's: units and chunks are in its tokens."""
    builder, documents = settings.method.builder, settings.documents
    parameters = {"tokenizer": settings.encoder.model}
    if isinstance(builder, MarkersBuilder):
        parameters["model"] = _name(settings.indexing_model)
        return Markers(settings.extraction, tokenizer, documents, parameters)
    if isinstance(builder, FixedBuilder):
        return Fixed(builder, tokenizer, documents, parameters)
    return Units(tokenizer, documents, parameters)


def _name(model: LanguageModelSettings) -> str:
    return f"scripted:{model.replies.name}" if isinstance(model, ScriptedSettings) else model.model

"""The builder that a method names."""

from __future__ import annotations

from mrag.indexing.build_fixed import Fixed
from mrag.indexing.build_markers import Markers
from mrag.indexing.build_units import Units
from mrag.indexing.builder import Builder
from mrag.models.tokens import Tokenizer
from mrag.models.weights import identity_of_name
from mrag.settings import (
    FixedBuilder,
    LanguageModelSettings,
    MarkersBuilder,
    ScriptedSettings,
    Settings,
    VllmSettings,
)


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
    """What tells the model from others; the name of a catalogue or a hub is taken at its word."""
    if isinstance(model, ScriptedSettings):
        return f"scripted:{model.replies.name}"
    return identity_of_name(model.model) if isinstance(model, VllmSettings) else model.model

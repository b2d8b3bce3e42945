"""What a collection is built with, read off the settings."""

from __future__ import annotations

from mrag.collection import Stamp
from mrag.indexing.builder import Builder
from mrag.models.encoder import Encoder
from mrag.settings import Settings


def collection_stamp(settings: Settings, builder: Builder, encoder: Encoder) -> Stamp:
    """The stamp that every append to the collection must bring. Loads the encoder."""
    return Stamp(
        builder=builder.fingerprint,
        encoder=encoder.fingerprint,
        dimension=encoder.dimension,
        analyzer=settings.sparse.language,
        k1=settings.sparse.k1,
        b=settings.sparse.b,
        key_text=settings.extraction.key_text,
        searched=settings.method.retrieval.name,
        builder_settings=builder.parameters,
    )


def as_stamped(settings: Settings, stamp: Stamp) -> Settings:
    """The settings under which documents are encoded and written for a collection of this stamp."""
    method, sparse = settings.method, {"language": stamp.analyzer, "k1": stamp.k1, "b": stamp.b}
    retrieval = method.retrieval.model_copy(update={"name": stamp.searched})
    return settings.model_copy(
        update={
            "extraction": settings.extraction.model_copy(update={"key_text": stamp.key_text}),
            "method": method.model_copy(update={"retrieval": retrieval}),
            "sparse": settings.sparse.model_copy(update=sparse),
        }
    )

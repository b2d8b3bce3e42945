"""Where collections live, and how they are searched."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from mrag.settings.strict import Strict


class DenseSettings(Strict):
    """FAISS. `device` is where searching happens; files on disk are always CPU indexes."""

    index: Literal["flat"] = "flat"
    device: Literal["cpu", "gpu"] = "cpu"


class SparseSettings(Strict):
    """Lucene through Pyserini: the analyzer's language, and BM25's two constants."""

    language: str = "en"
    k1: float = Field(0.9, ge=0)
    b: float = Field(0.4, ge=0, le=1)


class CollectionSettings(Strict):
    """Where collections live. `root` is a folder; documents are spread over `shards` by their id."""

    root: Path = Path("collections")
    name: str = Field("default", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")
    shards: int = Field(1, ge=1, le=1024)

"""Where collections live, and how they are searched."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from mrag.settings.address import store_address
from mrag.settings.strict import Strict

Verify = Literal["fast", "full"]
_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"


class HnswSettings(Strict):
    """The graph of `hnsw`: neighbours of a vector, and how many are looked at to build and to search it."""

    m: int = Field(32, ge=4, le=128)
    ef_construction: int = Field(200, ge=8)
    ef_search: int = Field(64, ge=1)


class IvfPqSettings(Strict):
    """`ivf-pq`: `nprobe` of `nlist` lists are searched by codes of `code_bytes` bytes a vector.

    `nlist` is by default four times the square root of the number of vectors. `refine` times as many as are
    asked for are then scored by their vectors.
    """

    nlist: int | None = Field(None, ge=1)
    nprobe: int = Field(32, ge=1)
    code_bytes: int = Field(48, ge=1)
    refine: int = Field(10, ge=1)


class AutoSettings(Strict):
    """From how many vectors of a shard `auto` takes another kind than `flat`."""

    hnsw_from: int = Field(100_000, ge=1)
    ivf_pq_from: int = Field(5_000_000, ge=1)

    @model_validator(mode="after")
    def _ascending(self) -> AutoSettings:
        if self.ivf_pq_from < self.hnsw_from:
            raise ValueError(f"ivf_pq_from ({self.ivf_pq_from}) is less than hnsw_from ({self.hnsw_from})")
        return self


class DenseSettings(Strict):
    """FAISS. `index` is what new segments are built for, and searched by: `flat` searches all exactly.

    `device` is where searching happens; files on disk are always CPU indexes.
    """

    index: Literal["flat", "hnsw", "ivf-pq", "auto"] = "flat"
    device: Literal["cpu", "gpu"] = "cpu"
    hnsw: HnswSettings = HnswSettings()
    ivf_pq: IvfPqSettings = IvfPqSettings()
    auto: AutoSettings = AutoSettings()


class SparseSettings(Strict):
    """Lucene through Pyserini: the analyzer's language, and BM25's two constants."""

    language: str = "en"
    k1: float = Field(0.9, ge=0)
    b: float = Field(0.4, ge=0, le=1)


class CompactionSettings(Strict):
    """When a run compacts at its end: where more than this share of all records is dead, or there are more
    segments. By default never, since a compaction takes the way back to earlier generations.
    """

    dead_share: float | None = Field(None, ge=0, lt=1)
    segments: int | None = Field(None, ge=1)


class CollectionSettings(Strict):
    """Where collections live. `root` is a folder or an address (`s3://bucket/prefix`, see `address`).

    Documents are spread over `shards` by their id. `replies_of` is another collection there, from whose
    ledger a run takes the replies that its own lacks. `generation` is the one that is read in place of the
    one in force. `verify` says how its files are compared with what was written, at opening: sizes (`fast`)
    or all bytes (`full`); by default all bytes of what is small or was not compared on this machine before.
    """

    root: Path = Path("collections")
    name: str = Field("default", pattern=_NAME)
    replies_of: str | None = Field(None, pattern=_NAME)
    shards: int = Field(1, ge=1, le=1024)
    generation: int | None = Field(None, ge=1)
    verify: Verify | None = None
    compaction: CompactionSettings = CompactionSettings()

    @field_validator("root")
    @classmethod
    def _folder_or_address(cls, root: Path) -> Path:
        store_address(root)
        return root

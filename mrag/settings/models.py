"""The language models, what they cost, and the encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from mrag.settings.strict import Strict


class VllmSettings(Strict):
    """The engine in this process. `model` is a name that `mrag models` lists, a hub id or a folder.

    `memory_fraction` is of the GPU's memory, or of main memory on a machine without one. The `dtype` that
    is computed in is `auto`: as the weights are stored, or single precision on a processor without AVX-512.
    """

    engine: Literal["vllm"] = "vllm"
    model: str = "qwen2.5-coder-0.5b-instruct"
    window_tokens: int = Field(8192, ge=512)
    max_concurrency: int = Field(64, ge=1)
    timeout_s: float = Field(600.0, gt=0)
    memory_fraction: float = Field(0.3, gt=0, le=1)
    kv_cache_gib: float = Field(2.0, gt=0)
    tensor_parallel: int = Field(1, ge=1)
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    enforce_eager: bool = True


class OpenAISettings(Strict):
    """Any OpenAI-compatible endpoint. The key is read from the environment variable `api_key_env`.

    `tokenizer` names a folder or hub id; without it a UTF-8 byte counts as a token, the upper bound
    of byte-level tokenizers, so that no budget is ever exceeded. `timeout_s` is for one try; all waiting
    between the tries of a request ends at `max_wait_s`. The rates are those of each process that asks.
    """

    engine: Literal["openai"]
    model: str
    base_url: str
    api_key_env: str = "OPENAI_API_KEY"
    window_tokens: int = Field(32768, ge=512)
    max_concurrency: int = Field(16, ge=1)
    timeout_s: float = Field(120.0, gt=0)
    max_retries: int = Field(5, ge=0)
    max_wait_s: float = Field(300.0, ge=0)
    requests_per_minute: int | None = Field(None, ge=1)
    tokens_per_minute: int | None = Field(None, ge=1)
    tokenizer: str | None = None
    structured_output: bool = True
    token_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"


class ScriptedSettings(Strict):
    """Replies from a JSONL file, for tests and rehearsals: no model is loaded."""

    engine: Literal["scripted"]
    replies: Path
    window_tokens: int = Field(8192, ge=512)
    max_concurrency: int = Field(16, ge=1)


LanguageModelSettings = Annotated[
    VllmSettings | OpenAISettings | ScriptedSettings, Field(discriminator="engine")
]


StageName = Literal["select", "extract", "generate"]


class StageModels(Strict):
    """Language models of single stages of a question; one that has none asks `language_model`."""

    select: LanguageModelSettings | None = None
    extract: LanguageModelSettings | None = None
    generate: LanguageModelSettings | None = None


class RateSettings(Strict):
    """What a model costs, for `mrag plan`: money for a million tokens, and tokens per second."""

    prompt_price: float | None = Field(None, ge=0)
    completion_price: float | None = Field(None, ge=0)
    currency: str = "USD"
    prompt_tokens_per_s: float | None = Field(None, gt=0)
    completion_tokens_per_s: float | None = Field(None, gt=0)


class EncoderSettings(Strict):
    """sentence-transformers. The prefixes are put before each text of their kind."""

    model: str = "all-minilm-l6-v2"
    device: str | None = None
    batch: int = Field(64, ge=1)
    max_tokens: int = Field(256, ge=16)
    query_prefix: str = ""
    passage_prefix: str = ""

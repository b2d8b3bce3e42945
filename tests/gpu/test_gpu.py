"""What only a machine with a CUDA device can show: `python -m pytest tests/gpu` after requirements/gpu.txt.

Untried: no such machine was at hand. A part whose package is missing there is skipped and says so.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
import torch

from mrag.models.language_model import LanguageModel
from mrag.models.opening import open_language_model
from mrag.models.sentence_encoder import SentenceEncoder
from mrag.settings import DenseSettings, EncoderSettings
from tests.contract.test_language_model import LanguageModelContract
from tests.llm.conftest import ENGINE
from tests.tiny_encoder import tiny_bge_m3

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
SAMPLE = Path(__file__).parents[2] / "mrag" / "data" / "sample" / "documents"


def test_the_encoder_gives_the_same_vectors_as_on_the_cpu(tmp_path: Path) -> None:
    folder = tiny_bge_m3(tmp_path)
    texts = [f"buoy {number} in the harbour" for number in range(100)]
    here, there = (
        SentenceEncoder(EncoderSettings(model=str(folder), device=device)) for device in ("cpu", "cuda")
    )
    assert here.fingerprint == there.fingerprint
    np.testing.assert_allclose(here.encode(texts, "query"), there.encode(texts, "query"), atol=1e-4)


@pytest.mark.parametrize("dead_share", [0.0, 0.5, 0.999])
def test_faiss_finds_the_same_keys_as_on_the_cpu(tmp_path: Path, dead_share: float) -> None:
    faiss = pytest.importorskip("faiss")
    if not hasattr(faiss, "StandardGpuResources"):
        pytest.skip("this faiss was built without GPUs")
    from mrag.collection.dense import DenseIndex, DensePart, DenseWriter

    chance = np.random.default_rng(7)
    vectors = chance.normal(size=(5000, 64)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    live = chance.random(len(vectors)) >= dead_share
    writer = DenseWriter()
    writer.add(vectors)
    writer.write(tmp_path)
    part = DensePart(tmp_path, live)
    here, there = (DenseIndex([part], 64, DenseSettings(device=device)) for device in ("cpu", "gpu"))
    for query in vectors[:20]:
        count = min(100, int(live.sum()))
        expected, _ = here.search(query, count)
        scores, rows = there.search(query, len(vectors) if dead_share else count)
        np.testing.assert_allclose(scores[live[rows]][:count], expected, atol=1e-4)


@pytest.mark.parametrize("kind", ["hnsw", "ivf-pq"])
@pytest.mark.parametrize("share", [0.5, 0.01])
def test_faiss_finds_as_much_of_a_filter_by_lists_and_graphs(tmp_path: Path, kind: str, share: float) -> None:
    faiss = pytest.importorskip("faiss")
    if not hasattr(faiss, "StandardGpuResources"):
        pytest.skip("this faiss was built without GPUs")
    from mrag.collection.dense import KEYS, DenseIndex, DensePart, DenseWriter

    chance = np.random.default_rng(7)
    vectors = chance.normal(size=(12_000, 64)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    wanted = chance.random(len(vectors)) < share
    settings = DenseSettings(index=kind, ivf_pq={"code_bytes": 16}, device="gpu")
    writer = DenseWriter(settings=settings)
    writer.add(vectors)
    writer.write(tmp_path)
    part = DensePart(tmp_path, np.ones(len(vectors), np.bool_), KEYS, kind)
    index = DenseIndex([part], 64, settings)
    for query in vectors[:20]:
        scores, rows = index.search(query, 20 if kind == "ivf-pq" else len(vectors), wanted)
        assert np.count_nonzero(wanted[rows]) >= 20
        np.testing.assert_allclose(scores, vectors[rows] @ query, atol=1e-4)


class TestVllmOnAGpu(LanguageModelContract):
    """The suite that every language model passes, on an engine that compiled its graphs for the device."""

    pytestmark = pytest.mark.asyncio(loop_scope="class")
    turns = ENGINE.max_concurrency

    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    async def model(self) -> AsyncIterator[LanguageModel]:
        pytest.importorskip("vllm")
        model = await open_language_model(ENGINE.model_copy(update={"enforce_eager": False}))
        yield model
        await model.close()


def test_a_folder_is_indexed_and_asked_with_the_settings_for_gpus(tmp_path: Path) -> None:
    for package in ("vllm", "faiss", "jnius"):
        pytest.importorskip(package)
    overrides = {
        "collection.root": tmp_path,
        "collection.name": "sample",
        "language_model.model": "qwen2.5-coder-0.5b-instruct",
        "encoder.model": "all-minilm-l6-v2",
        "encoder.max_tokens": 256,
    }
    options = ["--config", "configs/rtx.yaml"]
    options += [part for key, value in overrides.items() for part in ("--set", f"{key}={value}")]
    for command in (["index", str(SAMPLE)], ["ask", "Who designed the Tidewren 4?"]):
        subprocess.run([Path(sys.executable).with_name("mrag"), *command, *options], check=True)

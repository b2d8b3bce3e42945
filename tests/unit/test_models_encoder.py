"""The encoder on a tiny random model of bge-m3's make."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from mrag.errors import ModelError
from mrag.models.opening import open_encoder
from mrag.models.sentence_encoder import SentenceEncoder
from mrag.settings import EncoderSettings
from tests.tiny_encoder import tiny_bge_m3

TEXTS = ["a buoy", "the harbour", "", "a buoy in the harbour " * 40]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bge_m3(tmp_path_factory.mktemp("encoder"))


def encoder(folder: Path, **more: Any) -> SentenceEncoder:
    return SentenceEncoder(EncoderSettings(model=str(folder), device="cpu", **more))


@pytest.fixture(scope="module")
def loaded(folder: Path) -> SentenceEncoder:
    return encoder(folder)


def test_rows_are_unit_float32_in_the_order_given(loaded: SentenceEncoder, folder: Path) -> None:
    rows = loaded.encode(TEXTS, "passage")
    assert (rows.shape, rows.dtype, loaded.dimension) == ((4, 1024), np.float32, 1024)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    alone = np.vstack([loaded.encode([text], "passage") for text in TEXTS])
    np.testing.assert_allclose(rows, alone, atol=1e-5)
    bare = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(rows, bare, atol=1e-5)


def test_pooling_is_the_first_tokens(loaded: SentenceEncoder, folder: Path) -> None:
    model = SentenceTransformer(str(folder), device="cpu")
    features = model[0](model.preprocess(["a buoy"]))
    first = features["token_embeddings"][0, 0].detach().numpy()
    np.testing.assert_allclose(
        loaded.encode(["a buoy"], "query")[0], first / np.linalg.norm(first), atol=1e-5
    )


def test_nothing_gives_no_rows(loaded: SentenceEncoder) -> None:
    assert loaded.encode([], "query").shape == (0, 1024)


def test_a_constructor_loads_nothing() -> None:
    open_encoder(EncoderSettings(model="no such folder or model"))


def test_each_kind_has_its_prefix(folder: Path, loaded: SentenceEncoder) -> None:
    prefixed = encoder(folder, query_prefix="query: ", passage_prefix="passage: ")
    for kind in ("query", "passage"):
        expected = loaded.encode([f"{kind}: a buoy"], "passage")
        np.testing.assert_allclose(prefixed.encode(["a buoy"], kind), expected, atol=1e-6)


def test_text_beyond_max_tokens_is_not_read(folder: Path) -> None:
    short = encoder(folder, max_tokens=16)
    rows = short.encode(["abcdefghijkl" + tail for tail in ("", "xyz", "x" + "q" * 500)], "passage")
    np.testing.assert_allclose(rows[1], rows[2], atol=1e-6)
    assert not np.allclose(rows[0], rows[1], atol=1e-4)


def test_the_fingerprint_tells_what_can_be_compared(folder: Path, loaded: SentenceEncoder) -> None:
    same = encoder(folder, batch=1)
    others = [
        encoder(folder, max_tokens=64),
        encoder(folder, query_prefix="query: "),
        encoder(folder, passage_prefix="query: "),
    ]
    assert same.fingerprint == loaded.fingerprint
    assert len({loaded.fingerprint, *(other.fingerprint for other in others)}) == 4


@pytest.mark.parametrize(
    ("value", "fault"), [(np.nan, "is not finite"), (np.inf, "is not finite"), (0.0, "has no length")]
)
def test_a_useless_vector_is_refused_with_its_text(
    folder: Path, value: float, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = encoder(folder)
    broken.load()
    rows = np.ones((2, 1024), np.float32)
    rows[1] = value
    monkeypatch.setattr(broken._model, "encode", lambda texts, **_: rows)
    with pytest.raises(ModelError, match=f"{fault} for the passage 'the harbour'"):
        broken.encode(["a buoy", "the harbour"], "passage")


@pytest.mark.parametrize(
    "fault", [RuntimeError("out of memory"), ValueError(""), IndexError("a\nb"), Exception("tokenizer")]
)
def test_whatever_the_model_ends_with_costs_its_texts(
    folder: Path, fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = encoder(folder)
    broken.load()

    def failing(texts: list[str], **_: Any) -> None:
        raise fault

    monkeypatch.setattr(broken._model, "encode", failing)
    with pytest.raises(ModelError, match=type(fault).__name__) as raised:
        broken.encode(["a buoy", "the harbour"], "passage")
    assert "2 texts" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_odd_characters_are_encoded(loaded: SentenceEncoder) -> None:
    odd = ["\x00", "lone \ud800 half", "</s><s>", "‮", "\ufeff"]
    assert np.isfinite(loaded.encode(odd, "passage")).all()


def test_threads_take_turns(folder: Path) -> None:
    shared = encoder(folder)
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda text: shared.encode([text], "passage"), ["a", "b"] * 8))
    np.testing.assert_allclose(np.vstack(rows[::2]), np.vstack([rows[0]] * 8), atol=1e-6)


def test_a_folder_that_holds_no_encoder_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match=tmp_path.name):
        encoder(tmp_path).load()

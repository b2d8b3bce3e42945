"""The encoder: a sentence-transformers model, its rows of length one."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mrag.errors import ModelError, named
from mrag.models.encoder import Kind
from mrag.models.tokens import without_surrogates
from mrag.models.weights import ensure_weights, weights_identity
from mrag.schema import Vectors
from mrag.settings import EncoderSettings


class SentenceEncoder:
    """Any sentence-transformers model. It is loaded by `load`, or when it is first asked something.

    Threads may share one; they take turns, because a fast tokenizer is not safe to share.
    """

    def __init__(self, settings: EncoderSettings) -> None:
        self.settings = settings
        self._turn = threading.RLock()
        self._model: Any = None
        self._weights = ""

    def load(self) -> None:
        """Fetches the weights where they are missing and loads them. Raises ModelError."""
        with self._turn:
            if self._model is None:
                folder = ensure_weights(self.settings.model)
                self._weights = weights_identity(folder)
                self._model = self._open(folder)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over weights, dimension, normalisation, prefixes and the tokens that are read."""
        parts = {
            "weights": self._loaded() and self._weights,
            "dimension": self.dimension,
            "normalised": True,
            "query_prefix": self.settings.query_prefix,
            "passage_prefix": self.settings.passage_prefix,
            "max_tokens": self._model.max_seq_length,
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._loaded().get_embedding_dimension())

    def encode(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """Unit rows (n, dimension) in the order given; text beyond `max_tokens` is not read.

        Raises ModelError for a vector that is not finite or has no length, naming the text, and for whatever
        the model itself ends with.
        """
        model = self._loaded()
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        prefix = self.settings.query_prefix if kind == "query" else self.settings.passage_prefix
        prefixed = [prefix + without_surrogates(text) for text in texts]
        with self._turn:
            rows = self._rows(model, prefixed)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        for row in np.flatnonzero(~np.isfinite(lengths) | (lengths == 0)):
            self._refuse(texts[row], kind, float(lengths[row, 0]))
        return np.asarray(rows / lengths, np.float32)

    def _loaded(self) -> Any:
        self.load()
        return self._model

    def _open(self, folder: Path) -> Any:
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging

        logging.disable_progress_bar()
        try:
            model = SentenceTransformer(str(folder), device=self.settings.device)
        except Exception as error:
            raise ModelError(
                f"The encoder {self.settings.model} can't be loaded from {folder}, {named(error)}: "
                "name another model, or fetch this one again."
            ) from error
        longest = model.max_seq_length or self.settings.max_tokens
        model.max_seq_length = min(longest, self.settings.max_tokens)
        return model

    def _rows(self, model: Any, texts: list[str]) -> Vectors:
        try:
            rows = model.encode(texts, batch_size=self.settings.batch, show_progress_bar=False)
            return np.asarray(rows, dtype=np.float32)
        except Exception as error:
            # Tokenizers raise Exception itself; what is unknown here must cost its texts, and not the run.
            raise ModelError(
                f"The encoder {self.settings.model} failed on {len(texts)} texts with {named(error)}: "
                "leave the text out, or set another encoder, batch or device."
            ) from error

    def _refuse(self, text: str, kind: Kind, length: float) -> None:
        fault = "has no length" if length == 0 else "is not finite"
        raise ModelError(
            f"The encoder {self.settings.model} gave a vector that {fault} for the {kind} {text[:80]!r}."
        )

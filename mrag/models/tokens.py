"""The tokenizer seam and its two implementations: lengths in the tokens of the model that reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from mrag.errors import ModelError


class Tokenizer(Protocol):
    """Counts and places tokens of bare text (no special tokens added)."""

    def count(self, text: str) -> int:
        """Number of tokens of `text`."""

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Character offsets [start, end) of each token, in order."""


class ByteTokenizer:
    """A UTF-8 byte is a token: the upper bound of every byte-level tokenizer."""

    def count(self, text: str) -> int:
        """Number of UTF-8 bytes; a lone surrogate counts as the three it would take."""
        return len(text.encode("utf-8", "surrogatepass"))

    def spans(self, text: str) -> list[tuple[int, int]]:
        """One span a byte: a character of three bytes has its span three times."""
        return [(i, i + 1) for i, character in enumerate(text) for _ in range(self.count(character))]


class PlainTokenizer:
    """A Hugging Face `tokenizer.json` for bare text: no text is ever read as a control token.

    `<|im_start|>` or `<think>` in a document are words like any other, because the added tokens
    are taken out of the tokenizer before it is built. White space stays: it means no control.
    """

    def __init__(self, file: Path) -> None:
        import tokenizers

        tree = read_tokenizer(file)
        self._control = control_ids(tree)
        kept = [token for token in tree["added_tokens"] if token["content"].isspace()]
        self._engine = tokenizers.Tokenizer.from_str(json.dumps({**tree, "added_tokens": kept}))
        # What is left of the added tokens is numbered anew.
        self._true_ids = {self._engine.token_to_id(token["content"]): token["id"] for token in kept}
        self._engine.no_truncation()
        self._engine.no_padding()

    def ids(self, text: str) -> list[int]:
        """Token ids of `text`, none of them a control token's."""
        return [token for token, _ in self._tokens(text)]

    def count(self, text: str) -> int:
        """Number of tokens of `text`."""
        return len(self.ids(text))

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Offsets of each token; the tokens of one split character all have that character's."""
        return [span for _, span in self._tokens(text)]

    def _tokens(self, text: str) -> Iterator[tuple[int, tuple[int, int]]]:
        encoded = self._engine.encode(without_surrogates(text), add_special_tokens=False)
        for number, (start, end) in zip(encoded.ids, encoded.offsets, strict=True):
            token = self._true_ids.get(number, number)
            if token not in self._control:
                yield token, (start, end)
                continue
            # A unigram vocabulary may spell a control token whole: it is taken letter by letter.
            for i in range(start, end):
                yield from ((t, (i, i + 1)) for t in self._letter(text[i]) if t not in self._control)

    def _letter(self, character: str) -> list[int]:
        ids: list[int] = self._engine.encode(without_surrogates(character), add_special_tokens=False).ids
        return ids


def read_tokenizer(file: Path) -> dict[str, Any]:
    """The JSON tree of a `tokenizer.json`; ModelError for a file that is not one."""
    try:
        tree = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise ModelError(
            f"{file.parent} has no tokenizer.json: give a model with a fast tokenizer."
        ) from None
    except ValueError as error:
        raise ModelError(f"{file} is damaged ({error}): delete its folder and fetch it again.") from None
    if not isinstance(tree, dict) or "model" not in tree:
        raise ModelError(f"{file} is not a Hugging Face fast tokenizer.")
    tree.setdefault("added_tokens", [])
    return tree


def control_ids(tree: dict[str, Any]) -> frozenset[int]:
    """Ids of the added tokens of a `tokenizer.json`, white space and the unknown token apart."""
    model = tree["model"]
    unknown = {model.get("unk_token"), model.get("unk_id")}
    return frozenset(
        token["id"]
        for token in tree["added_tokens"]
        if not token["content"].isspace() and not {token["id"], token["content"]} & unknown
    )


def without_surrogates(text: str) -> str:
    """The same number of characters, each lone surrogate a question mark: no engine takes one."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def load_tokenizer(model: str) -> PlainTokenizer:
    """The tokenizer of a catalogue name, a hub id or a folder; it is fetched where it is missing.

    Only the tokenizer of a hub id is fetched, not its weights. Raises ModelError.
    """
    from mrag.models.weights import ensure_tokenizer

    return PlainTokenizer(ensure_tokenizer(model) / "tokenizer.json")

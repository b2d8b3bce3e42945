"""A tokenizer on disk whose tokens are the words between blanks, so that a person can count them."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers


def word_tokenizer(folder: Path) -> Path:
    """Writes it into `folder`, which can then be named as a model is."""
    folder.mkdir(exist_ok=True)
    tokenizer = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder

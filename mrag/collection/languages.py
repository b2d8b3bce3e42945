"""The language of a document, where `sparse.language` is `auto`. The only door to py3langid."""

from __future__ import annotations

from functools import cache
from typing import Any

AUTO = "auto"
UNDETERMINED = "und"
SURE_FROM = 0.5
READ_CHARACTERS = 20_000
NEAR = {"nn": "no", "yue": "zh", "wuu": "zh", "arz": "ar", "ary": "ar"}


def detected(text: str) -> str:
    """The ISO code of the language that the text is in, `und` where that is not sure.

    The same text gives the same code, whatever was asked before. The first 20,000 characters are read.
    """
    language, confidence = _identifier().classify(text[:READ_CHARACTERS])
    return str(NEAR.get(language, language)) if confidence >= SURE_FROM else UNDETERMINED


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)

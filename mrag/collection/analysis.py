"""From text to words, as Lucene's analyzers see them: one analyzer for each language.

In a collection of several (`auto`) each document's texts go through the analyzer of its language, and a
query through those of all languages that live in the collection. To BM25 a word is a word, whichever of them
made it: there are one number of texts, one average length and one frequency for each word, so that scores
depend on nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any

from mrag.collection.jvm import java_class
from mrag.collection.languages import AUTO, UNDETERMINED
from mrag.errors import SettingsError

ENGLISH = "io.anserini.analysis.DefaultEnglishAnalyzer"
ANALYZERS = {
    "ar": "ar.ArabicAnalyzer",
    "bg": "bg.BulgarianAnalyzer",
    "bn": "bn.BengaliAnalyzer",
    "ca": "ca.CatalanAnalyzer",
    "ckb": "ckb.SoraniAnalyzer",
    "cs": "cz.CzechAnalyzer",
    "da": "da.DanishAnalyzer",
    "de": "de.GermanAnalyzer",
    "el": "el.GreekAnalyzer",
    "es": "es.SpanishAnalyzer",
    "et": "et.EstonianAnalyzer",
    "eu": "eu.BasqueAnalyzer",
    "fa": "fa.PersianAnalyzer",
    "fi": "fi.FinnishAnalyzer",
    "fr": "fr.FrenchAnalyzer",
    "ga": "ga.IrishAnalyzer",
    "gl": "gl.GalicianAnalyzer",
    "hi": "hi.HindiAnalyzer",
    "hu": "hu.HungarianAnalyzer",
    "hy": "hy.ArmenianAnalyzer",
    "id": "id.IndonesianAnalyzer",
    "it": "it.ItalianAnalyzer",
    "ja": "ja.JapaneseAnalyzer",
    "ko": "cjk.CJKAnalyzer",
    "lt": "lt.LithuanianAnalyzer",
    "lv": "lv.LatvianAnalyzer",
    "ne": "ne.NepaliAnalyzer",
    "nl": "nl.DutchAnalyzer",
    "no": "no.NorwegianAnalyzer",
    "pt": "pt.PortugueseAnalyzer",
    "ro": "ro.RomanianAnalyzer",
    "ru": "ru.RussianAnalyzer",
    "sr": "sr.SerbianAnalyzer",
    "sv": "sv.SwedishAnalyzer",
    "ta": "ta.TamilAnalyzer",
    "te": "te.TeluguAnalyzer",
    "tr": "tr.TurkishAnalyzer",
    UNDETERMINED: "standard.StandardAnalyzer",
    "uk": "uk.UkrainianMorfologikAnalyzer",
    "zh": "cjk.CJKAnalyzer",
}


class Analyzer:
    """Splits, folds and stems text in one language; English as Pyserini's default: Porter, stop words out.

    To be used inside `java(...)`, as all of the machine.
    """

    def __init__(self, language: str) -> None:
        check_language(language)
        self.language = language
        self.java = _analyzer(language)

    def words(self, text: str) -> list[str]:
        """The words of a text in order, repetitions included; no character of it is syntax."""
        words: list[str] = _analyzed(self.java, text).toArray()
        return words

    def stream(self, field: str, text: str) -> Any:
        """The same for Lucene's writer, which reads it before the next one is asked for."""
        return self.java.tokenStream(field, text)

    def count(self, text: str) -> int:
        """The number of its words, as Lucene counts the length of a field."""
        return int(_analyzed(self.java, text).size())


def check_language(language: str) -> None:
    """Raises SettingsError for a language without an analyzer."""
    if language not in ("en", AUTO) and language not in ANALYZERS:
        known = ", ".join(sorted(["en", *ANALYZERS]))
        raise SettingsError(
            f"sparse.language {language!r} has no analyzer: choose one of {known}, or auto to have each "
            "document's detected."
        )


def analyzer_of(language: str) -> Analyzer:
    """That of a detected language; where it has none, one that takes words as they are."""
    return Analyzer(language if language == "en" or language in ANALYZERS else UNDETERMINED)


def words_in(languages: Iterable[str], text: str) -> list[str]:
    """The words that the analyzers of some languages make of a text.

    What several make counts once: as often as the one that makes it most often.
    """
    counts: Counter[str] = Counter()
    for language in sorted(languages):
        counts |= Counter(Analyzer(language).words(text))
    return list(counts.elements())


def _analyzed(analyzer: Any, text: str) -> Any:
    return java_class("io.anserini.analysis.AnalyzerUtils").analyze(analyzer, text)


@cache
def _analyzer(language: str) -> Any:
    if language == "en":
        return java_class(ENGLISH).newDefaultInstance()
    return java_class(f"org.apache.lucene.analysis.{ANALYZERS[language]}")()

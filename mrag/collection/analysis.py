"""From text to words, as Lucene's analyzers see them: one analyzer for each language."""

from __future__ import annotations

from functools import cache
from typing import Any

from mrag.collection.jvm import java_class
from mrag.errors import SettingsError

ENGLISH = "io.anserini.analysis.DefaultEnglishAnalyzer"
ANALYZERS = {
    "ar": "ar.ArabicAnalyzer",
    "bg": "bg.BulgarianAnalyzer",
    "bn": "bn.BengaliAnalyzer",
    "ca": "ca.CatalanAnalyzer",
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
    "uk": "uk.UkrainianMorfologikAnalyzer",
    "zh": "cjk.CJKAnalyzer",
}


class Analyzer:
    """Splits, folds and stems text in one language; English as Pyserini's default: Porter, stop words out.

    To be used inside `java(...)`, as all of the machine.
    """

    def __init__(self, language: str) -> None:
        if language != "en" and language not in ANALYZERS:
            known = ", ".join(sorted(["en", *ANALYZERS]))
            raise SettingsError(f"sparse.language {language!r} has no analyzer: choose one of {known}.")
        self.java = _analyzer(language)

    def words(self, text: str) -> list[str]:
        """The words of a text in order, repetitions included; no character of it is syntax."""
        words: list[str] = _analyzed(self.java, text).toArray()
        return words

    def count(self, text: str) -> int:
        """The number of its words, as Lucene counts the length of a field."""
        return int(_analyzed(self.java, text).size())


def _analyzed(analyzer: Any, text: str) -> Any:
    return java_class("io.anserini.analysis.AnalyzerUtils").analyze(analyzer, text)


@cache
def _analyzer(language: str) -> Any:
    if language == "en":
        return java_class(ENGLISH).newDefaultInstance()
    return java_class(f"org.apache.lucene.analysis.{ANALYZERS[language]}")()

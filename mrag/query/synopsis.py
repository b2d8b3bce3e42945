"""SANE eqs. 4 to 7: what a candidate is about, by rule, from its source units alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, log

from mrag.documents.sentences import sentence_spans
from mrag.documents.words import content_words
from mrag.models.prompt import one_line
from mrag.query.about import about
from mrag.query.fitting import CountTokens, cut_at_word
from mrag.schema import Candidate
from mrag.settings import SynopsisSettings


@dataclass(frozen=True)
class Synopsis:
    """z = (metadata, keywords, excerpt) of eq. 7, or the whole text; each a single line, empty where off."""

    metadata: str = ""
    keywords: str = ""
    excerpt: str = ""
    text: str = ""

    @property
    def shown(self) -> str:
        """As prompts show it, a part a line; only the first line begins at the margin."""
        keywords = self.keywords and f"keywords: {self.keywords}"
        excerpt = self.excerpt and f"excerpt: {self.excerpt}"
        return "\n  ".join(part for part in (self.metadata, keywords, excerpt, self.text) if part)


def synopses(
    question: str,
    candidates: Sequence[Candidate],
    count: CountTokens,
    settings: SynopsisSettings,
    share: float = 1.0,
) -> tuple[Synopsis, ...]:
    """One synopsis a candidate, in order, within this share of its limits; IDF is over all the candidates."""

    def cut(text: str, tokens: int) -> str:
        return cut_at_word(text, int(tokens * share), count)

    if whole := settings.full_text_tokens:
        return tuple(Synopsis(text=cut(one_line(candidate.text), whole)) for candidate in candidates)
    bags = [Counter(content_words(candidate.text)) for candidate in candidates]
    idf = inverse_frequencies(bags)
    wanted = set(content_words(question))
    return tuple(
        Synopsis(
            cut(metadata_line(candidate), settings.metadata_tokens),
            cut(", ".join(keywords(bag, idf)), settings.keywords_tokens),
            cut(one_line(excerpt(candidate, wanted, idf)), settings.excerpt_tokens),
        )
        for candidate, bag in zip(candidates, bags, strict=True)
    )


def inverse_frequencies(bags: Sequence[Counter[str]]) -> dict[str, float]:
    """ln(1 + w / df) of each word in w candidates: never zero, so that a pool of one has keywords."""
    df = Counter(word for bag in bags for word in bag)
    return {word: log(1 + len(bags) / n) for word, n in df.items()}


def metadata_line(candidate: Candidate) -> str:
    """Title (or id), section, and the document's own metadata, on one line."""
    return about(candidate.document, candidate.units[0].section if candidate.units else ())


def keywords(bag: Counter[str], idf: Mapping[str, float], most: int = 12) -> list[str]:
    """The words of highest TF-IDF, ties in the order of appearance."""
    return sorted(bag, key=lambda word: -bag[word] * idf[word])[:most]


def excerpt(candidate: Candidate, wanted: set[str], idf: Mapping[str, float]) -> str:
    """The sentence whose words shared with the question weigh most; the first of equal ones."""
    sentences = [unit.text[start:end] for unit in candidate.units for start, end in sentence_spans(unit.text)]
    return max(
        sentences,
        key=lambda sentence: fsum(idf[word] for word in wanted & set(content_words(sentence))),
        default="",
    )

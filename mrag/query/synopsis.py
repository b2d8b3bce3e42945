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


@dataclass(frozen=True)
class SynopsisLimits:
    """The most tokens of each part, as the selecting model counts them."""

    metadata: int = 40
    keywords: int = 24
    excerpt: int = 64

    def scaled(self, factor: float) -> SynopsisLimits:
        """The same proportions, smaller."""
        return SynopsisLimits(*(int(part * factor) for part in (self.metadata, self.keywords, self.excerpt)))


@dataclass(frozen=True)
class Synopsis:
    """z = (metadata, keywords, excerpt) of eq. 7, each a single line; empty where there is nothing."""

    metadata: str
    keywords: str
    excerpt: str


def synopses(
    question: str, candidates: Sequence[Candidate], count: CountTokens, limits: SynopsisLimits
) -> tuple[Synopsis, ...]:
    """One synopsis a candidate, in order; IDF is over all the candidates."""
    bags = [Counter(content_words(candidate.text)) for candidate in candidates]
    idf = inverse_frequencies(bags)
    wanted = set(content_words(question))
    return tuple(
        Synopsis(
            cut_at_word(metadata_line(candidate), limits.metadata, count),
            cut_at_word(", ".join(keywords(bag, idf)), limits.keywords, count),
            cut_at_word(one_line(excerpt(candidate, wanted, idf)), limits.excerpt, count),
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

"""The analyses of a collection (M-RAG IV-C) as sections for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from mrag.collection import Collection, Histogram, IndexAnalysis, Manifest
from mrag.evaluation.layout import layout, layout_sections
from mrag.evaluation.sections import Plot, Section, excerpt, listed, number, percent, share
from mrag.models.tokens import load_tokenizer
from mrag.schema import Stored
from mrag.settings import Settings

FAR_UNITS = 10  # beyond so many units the paper calls a gap long (IV-C)


@dataclass(frozen=True)
class IndexReport:
    """One generation and its analysis; `tokenizer` names whose tokens its lengths are."""

    manifest: Manifest
    tokenizer: str
    analysis: IndexAnalysis

    def sections(self) -> tuple[Section, ...]:
        """Everything, in the paper's order."""
        return (
            self._contents(),
            self._coverage(),
            *self._lowest(),
            self._pointers(),
            self._gaps(),
            self._lengths(),
            self._cost(),
            self._rejected(),
            *self._examples(),
            *layout_sections(self.manifest, self.analysis.live_documents),
            self._built_with(),
        )

    # ------------------------------------------------------------------- tables

    def _contents(self) -> Section:
        counts, source = self.analysis.counts, self.analysis.lengths.units.total
        markers = self.analysis.pointers.total
        rows = [
            ("documents", number(counts.documents)),
            ("source units", number(counts.units)),
            ("source tokens", number(source)),
            ("records", number(counts.records)),
            *((f"of kind {kind.value}", number(many)) for kind, many in self.analysis.kinds.items()),
            ("keys", number(counts.keys)),
            ("keys per extracted record", number(self.analysis.lengths.keys_per_record.mean)),
            ("source tokens per extracted record", number(share(source, markers))),
        ]
        about = (
            f"What is live in generation {self.manifest.generation}; tokens are those of {self.tokenizer}."
        )
        return Section("Contents", about, ("", "count"), tuple(rows))

    def _coverage(self) -> Section:
        found = self.analysis.coverage
        rows = (
            ("average coverage of a document", percent(found.average)),
            ("variance, of the percentages", f"{found.variance:.4f}"),
            ("fallback, of the source units", percent(found.fallback)),
            ("coverage of all units before the repair", percent(share(found.extracted, found.units))),
            ("coverage of all units after it", percent(share(found.reached, found.units))),
        )
        about = (
            "Table III: the share of a document's source units that an extracted record points to (eq. 9), "
            "and what only the fallback repair reaches."
        )
        return Section("Coverage and fallback", about, ("", ""), rows)

    def _lowest(self) -> Iterator[Section]:
        rows = tuple(
            (excerpt(low.document_id), excerpt(low.title), number(low.units), percent(low.covered))
            for low in self.analysis.coverage.lowest
        )
        if rows:
            about = "The documents that the extractor covered least."
            yield Section("Lowest coverage", about, ("document", "title", "units", "coverage"), rows)

    def _pointers(self) -> Section:
        found = self.analysis.pointers
        kinds = (
            ("single unit", found.single),
            ("consecutive units", found.consecutive),
            ("scattered units", found.scattered),
        )
        rows = [(name, number(many), percent(share(many, found.total))) for name, many in kinds]
        about = "Table IV: how the pointers of extracted records lie; fallback records are left out."
        return Section(
            "Marker granularity",
            about,
            ("records that point to", "count", "share"),
            (*rows, ("total", number(found.total), percent(share(found.total, found.total)))),
        )

    def _gaps(self) -> Section:
        gaps, spans = self.analysis.pointers.gaps, self.analysis.pointers.spans
        far = gaps.above(FAR_UNITS)
        rows = (
            ("gaps", number(len(gaps))),
            (f"gaps above {FAR_UNITS} units", f"{number(far)} ({percent(share(far, len(gaps)))})"),
            ("longest gap, in units", number(gaps.greatest)),
            ("widest span of a record, in units", number(spans.greatest)),
        )
        about = (
            "Fig. 4: in scattered records, the distance from a pointer to the next one "
            "where that is more than one unit."
        )
        plot = Plot("Gaps of scattered records", "gap (source units)", "gaps", gaps)
        return Section("Gaps", about, ("", ""), rows, (plot,) if len(gaps) else ())

    def _lengths(self) -> Section:
        lengths = self.analysis.lengths
        named = (("keys", lengths.keys), ("values", lengths.values), ("source units", lengths.units))
        rows = tuple(
            (name, *map(number, (len(one), one.mean, one.deviation)), *_quantiles(one)) for name, one in named
        )
        limit = max(one.quantile(0.99) for _, one in named)
        plots = tuple(
            Plot(f"Length of {name}", f"tokens of {self.tokenizer}", name, one, limit)
            for name, one in named
            if len(one)
        )
        about = (
            "Fig. 5: token lengths of keys and values of extracted records, beside those of source units. "
            f"A value is {number(share(lengths.values.mean, lengths.keys.mean))} times as long as a key."
        )
        head = ("tokens of", "count", "mean", "deviation", "median", "95 % up to", "longest")
        return Section("Token lengths", about, head, rows, plots)

    def _cost(self) -> Section:
        usage, source = self.analysis.usage, self.analysis.lengths.units.total
        documents = self.analysis.counts.documents
        rows = tuple(
            (name, number(many), number(share(many, documents)), f"{share(many, source):.4f}")
            for name, many in (
                ("calls", usage.calls),
                ("tokens in", usage.prompt_tokens),
                ("tokens out", usage.completion_tokens),
            )
        )
        about = (
            "Section IV-G: what the language model was asked to make the live records, in its own tokens. "
            "What failed documents and those that were replaced had cost is not among it."
        )
        return Section("Cost", about, ("LLM", "total", "per document", "per source token"), rows)

    def _rejected(self) -> Section:
        rejected = self.analysis.rejected
        rows = tuple((excerpt(reason), number(many)) for reason, many in rejected.items())
        about = "Parts of replies that failed validation, in every round of the documents that are live."
        return Section(
            "Rejected", about, ("reason", "count"), (*rows, ("total", number(sum(rejected.values()))))
        )

    def _examples(self) -> Iterator[Section]:
        if self.analysis.repaired:
            about = "As in Fig. 3: source units that no extracted record points to."
            rows = tuple(
                (document, units, value) for document, units, _, value in _rows(self.analysis.repaired)
            )
            yield Section("Fallback records, examples", about, ("document", "units", "key = value"), rows)
        if self.analysis.scattered:
            about = "Those whose pointers lie the farthest apart."
            head = ("document", "units", "key", "value")
            yield Section("Scattered records, examples", about, head, _rows(self.analysis.scattered))

    def _built_with(self) -> Section:
        stamp = self.manifest.stamp
        settings = {**stamp.builder_settings, "searched": stamp.searched}
        rows = tuple((name, excerpt(str(value))) for name, value in settings.items())
        about = "What the records depend on: an append with other settings is refused."
        return Section("Built with", about, ("setting", "value"), rows)

    # ------------------------------------------------------------------- programs

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values, unrounded, with whole distributions: number to how often it was seen."""
        found = self.analysis
        coverage, pointers, lengths = found.coverage, found.pointers, found.lengths
        return {
            "collection": self.manifest.name,
            "generation": self.manifest.generation,
            "dead_share": self.manifest.dead_share,
            "shards": layout(self.manifest, found.live_documents),
            "counts": asdict(found.counts),
            "kinds": {kind.value: many for kind, many in found.kinds.items()},
            "coverage": {**asdict(coverage), "fallback": coverage.fallback},
            "pointers": {
                **{name: getattr(pointers, name) for name in ("single", "consecutive", "scattered", "total")},
                "gaps": _distribution(pointers.gaps),
                "spans": _distribution(pointers.spans),
            },
            "tokenizer": self.tokenizer,
            "lengths": {name: _distribution(getattr(lengths, name)) for name in vars(lengths)},
            "usage": asdict(found.usage),
            "rejected": dict(found.rejected),
            "repaired": [asdict(stored) for stored in found.repaired],
            "farthest": [asdict(stored) for stored in found.scattered],
            "searched": self.manifest.stamp.searched,
            "built_with": dict(self.manifest.stamp.builder_settings),
        }


def inspected(settings: Settings) -> IndexReport:
    """The collection that the settings name. Raises NotFoundError, CollectionError and ModelError.

    Lengths are in the tokens of the encoder that it was built for: the ones its units are measured in.
    """
    collection = Collection.at(settings.collection, legs=())
    tokenizer = str(collection.manifest.stamp.builder_settings.get("tokenizer", settings.encoder.model))
    return IndexReport(collection.manifest, tokenizer, collection.analysis(load_tokenizer(tokenizer).count))


def _quantiles(histogram: Histogram) -> tuple[str, ...]:
    return tuple(map(number, (histogram.quantile(0.5), histogram.quantile(0.95), histogram.greatest)))


def _rows(examples: tuple[Stored, ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (
            excerpt(stored.document.title or stored.document.id),
            listed(stored.record.pointers),
            excerpt(stored.record.keys[0]),
            excerpt(stored.record.value),
        )
        for stored in examples
    )


def _distribution(histogram: Histogram) -> dict[str, Any]:
    return {
        "count": len(histogram),
        "total": histogram.total,
        "mean": histogram.mean,
        "deviation": histogram.deviation,
        "median": histogram.quantile(0.5),
        "greatest": histogram.greatest,
        "seen": {str(number): many for number, many in histogram.counts().items()},
    }

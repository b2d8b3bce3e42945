"""A method: builder x retrieval x reader."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from mrag.settings.strict import Strict


class MarkersBuilder(Strict):
    """M-RAG: an LLM turns a document into records."""

    name: Literal["markers"] = "markers"


class UnitsBuilder(Strict):
    """One record a source unit: key = value = text."""

    name: Literal["units"] = "units"


class FixedBuilder(Strict):
    """Chunks of `tokens` encoder tokens, each sharing `overlap` with the one before."""

    name: Literal["fixed"] = "fixed"
    tokens: int = Field(128, ge=8)
    overlap: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _overlap_is_smaller(self) -> FixedBuilder:
        if self.overlap >= self.tokens:
            raise ValueError("overlap must be smaller than tokens")
        return self


BuilderSettings = Annotated[MarkersBuilder | UnitsBuilder | FixedBuilder, Field(discriminator="name")]


class LegWeights(Strict):
    """What each leg counts for in the fusion."""

    dense: float = Field(1.0, gt=0)
    sparse: float = Field(1.0, gt=0)


class RetrievalSettings(Strict):
    """What is searched: keys alone (M-RAG III-B), or beside them the source units.

    A collection that is indexed under `keys+units` can be asked for both. Its dense scores are a key's plus
    `unit_weight` times a unit's; its sparse ones are those of units expanded by their keys.
    `fusion` is by reciprocal rank or by normalised scores, each leg by its weight.
    `depth` is the number of records asked of each leg for each candidate wanted.
    `sub_queries` searches for the parts of a question too, as rules find them. `follow_up` says who joins a
    question to the turns before it: a rule, or (a fourth call) the model.
    """

    name: Literal["keys", "keys+units"] = "keys"
    legs: tuple[Literal["dense", "sparse"], ...] = Field(("dense", "sparse"), min_length=1)
    fusion: Literal["rank", "scores"] = "rank"
    leg_weights: LegWeights = LegWeights()
    rank_constant: int = Field(60, ge=1)
    depth: int = Field(5, ge=1)
    unit_weight: float = Field(32.0, ge=0, allow_inf_nan=False)
    sub_queries: Literal["off", "rule"] = "off"
    follow_up: Literal["rule", "model"] = "rule"


class PlainReader(Strict):
    """M-RAG III-C: values under `budget_tokens` (eq. 13), by similarity or by position.

    `policy` says what a value that does not fit does: it ends the context (eq. 13), or is passed over.
    `overflow` is for the case that nothing fits: the first value is cut, or (eq. 13) the context is empty.
    `deduplicate` leaves out what the context says already.
    `k` takes the first k candidates' raw text instead, and leaves the budget out.
    """

    name: Literal["plain"] = "plain"
    order: Literal["similarity", "position"] = "similarity"
    budget_tokens: int = Field(640, ge=1)
    policy: Literal["stop", "skip"] = "stop"
    overflow: Literal["cut", "strict"] = "cut"
    deduplicate: bool = True
    k: int | None = Field(None, ge=1)


class SynopsisSettings(Strict):
    """SANE eqs. 4 to 7: the most tokens of each part, as the selecting model counts them; 0 leaves it out.

    `full_text_tokens` shows the candidate's source text in place of all parts (Table 6, `w/o synopsis`).
    """

    metadata_tokens: int = Field(40, ge=0)
    keywords_tokens: int = Field(24, ge=0)
    excerpt_tokens: int = Field(64, ge=0)
    full_text_tokens: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _something_is_shown(self) -> SynopsisSettings:
        if not any(self.model_dump().values()):
            raise ValueError("a synopsis needs at least one part: give one of its limits a number above 0")
        return self


class SaneReader(Strict):
    """SANE: w candidates, k of them selected, their evidence extracted, an answer from the table.

    `select` is the form of selection: k are `listed` in one reply (eq. 8), ranked by the probability of one
    token (`labels`), judged in w requests (`each`), ranked in as many by the `likelihood` of the question
    after them, or the retrieval's first k (`off`). In the middle three the retrieval's rank counts
    `rank_weight` times the model's. `skip_margin` spares the call where every leg puts the same k first by
    this share of its scores.
    `quoting` says how a row gives its quote: `pointed` names a sentence, `copied` (the paper) writes it out.
    `read` is what the extractor is shown, `neighbours` how many units before and after each selected one.
    `max_rows` bounds the table, `derive` lets one of figures end with rows computed from it. `extract` and
    `blueprints` switched off are the ablations of SANE Table 6. With `citations: model` the generator is
    asked to cite rows, else a rule finds those that an answer rests on. `budget_tokens` bounds the raw units
    that are read where there is no verified row, unless `no_evidence` says to abstain.
    """

    name: Literal["sane"] = "sane"
    w: int = Field(20, ge=1)
    k: int = Field(5, ge=1)
    select: Literal["listed", "labels", "each", "likelihood", "off"] = "listed"
    rank_weight: float = Field(1.0, ge=0)
    skip_margin: float | None = Field(None, ge=0, le=1)
    synopsis: SynopsisSettings = SynopsisSettings()
    budget_tokens: int = Field(640, ge=1)
    quoting: Literal["pointed", "copied"] = "pointed"
    read: Literal["units", "values"] = "units"
    neighbours: int = Field(0, ge=0, le=10)
    extract: bool = True
    blueprints: bool = True
    max_rows: int = Field(12, ge=1, le=50)
    derive: bool = True
    citations: Literal["rule", "model"] = "rule"
    no_evidence: Literal["units", "abstain"] = "units"

    @model_validator(mode="after")
    def _k_fits_w(self) -> SaneReader:
        if self.k > self.w:
            raise ValueError("k must not exceed w")
        return self

    @model_validator(mode="after")
    def _abstains_for_want_of_evidence(self) -> SaneReader:
        if self.no_evidence == "abstain" and not self.extract:
            raise ValueError("no_evidence abstain needs extract: without a table no row is ever verified")
        return self


ReaderSettings = Annotated[PlainReader | SaneReader, Field(discriminator="name")]


class Method(Strict):
    """builder x retrieval x reader: how records are made, found and read.

    Deviation: the defaults are for the small local model, which finds by keys alone, and selects from a
    list, less than plain retrieval does (docs/notebook.md). The shipped methods are the papers'.
    """

    builder: BuilderSettings = MarkersBuilder()
    retrieval: RetrievalSettings = RetrievalSettings(name="keys+units", fusion="scores")
    reader: ReaderSettings = SaneReader(select="likelihood", max_rows=6)

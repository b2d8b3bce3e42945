"""The bodies of requests, field by field; a key that is not known is refused."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mrag.schema import Searched

MAX_POOL = 1000


class TurnBody(BaseModel):
    """One turn of the conversation before a question."""

    model_config = ConfigDict(extra="forbid")

    question: str
    answer: str = ""
    titles: list[str] = Field(default_factory=list, description="Of the documents that the answer cited.")


class Body(BaseModel):
    """What every question carries."""

    model_config = ConfigDict(extra="forbid")

    question: str = Field(description="The question, in natural language.", examples=["Who designed it?"])
    collection: str | None = Field(
        None, description="The collection to search; the configured one by default."
    )
    retrieval: Searched | None = Field(
        None, description="What is searched: keys alone, or beside them the source units."
    )
    filter: dict[str, Any] | None = Field(
        None,
        description="Metadata that documents must have: of each field a value, a list of which it is one, or "
        "tests (equals, in, gt, gte, lt, lte, prefix). `id` and `title` are fields, too.",
        examples=[{"lang": ["en", "de"], "date": {"gte": "2024-01-01"}}],
    )
    turns: list[TurnBody] | None = Field(
        None, description="The conversation before the question, the oldest turn first."
    )

    def options(self) -> dict[str, Any]:
        """All but the question, as `question_for` takes it."""
        return self._but("question")

    def _but(self, *left_out: str) -> dict[str, Any]:
        """The filter as it came: what it may hold is checked where it is read, and pydantic can't copy just
        anything, such as lists a thousand deep.
        """
        return {**self.model_dump(exclude={*left_out, "filter"}), "filter": self.filter}


class EvidenceBody(Body):
    """A question whose evidence is wanted. What is left out comes from the settings."""

    w: int | None = Field(None, le=MAX_POOL, description="Candidates in the pool.")
    k: int | None = Field(None, le=MAX_POOL, description="Candidates that are read.")
    select: Literal["listed", "labels", "each", "likelihood", "off"] | None = Field(
        None, description="How they are selected from the pool."
    )
    quoting: Literal["pointed", "copied"] | None = Field(
        None, description="How rows give their quotes: by a sentence's label, or copied."
    )
    read: Literal["units", "values"] | None = Field(
        None, description="What evidence is extracted from: source units, or records' values."
    )
    neighbours: int | None = Field(
        None, description="Units shown before and after each selected one, where there is room."
    )
    blueprints: bool | None = Field(None, description="Whether the table follows blueprints.")
    max_rows: int | None = Field(None, description="Most rows of the table.")
    derive: bool | None = Field(None, description="Whether rows may be computed from others.")

    def options(self) -> dict[str, Any]:
        """The reader is the one that extracts."""
        return {**super().options(), "reader": "sane", "extract": True}


class QueryBody(EvidenceBody):
    """A question to be answered; options that its reader does not have are refused."""

    reader: Literal["plain", "sane"] | None = Field(None, description="How the pool is read.")
    budget_tokens: int | None = Field(
        None, le=1_000_000, description="Most tokens of context, as the generator counts them."
    )
    k: int | None = Field(
        None, le=MAX_POOL, description="Candidates that are read (sane), or raw texts (plain)."
    )
    extract: bool | None = Field(None, description="Whether evidence is extracted at all (sane).")
    citations: Literal["rule", "model"] | None = Field(
        None, description="Who says which rows the answer rests on: a rule, or the model (sane)."
    )
    no_evidence: Literal["units", "abstain"] | None = Field(
        None, description="Without a verified row: answer from raw units, or not at all (sane)."
    )
    trace: bool = Field(False, description="Give the pool with the answer: what was selected from.")
    stream: bool = Field(False, description="Tell the stages, the text in pieces, and last the answer.")

    def options(self) -> dict[str, Any]:
        """The reader is the caller's, or that of the settings."""
        return self._but("question", "stream")


class RetrieveBody(Body):
    """A question whose pool is wanted."""

    w: int = Field(20, ge=1, le=MAX_POOL, description="Candidates wanted.")

    def options(self) -> dict[str, Any]:
        """`w` is no option of a reader here."""
        return self._but("question", "w")

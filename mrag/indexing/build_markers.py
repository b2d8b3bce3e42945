"""M-RAG III-B: an LLM writes the records, coverage is validated, gaps are asked for again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mrag.errors import EmptyReplyError, SettingsError
from mrag.indexing.builder import Builder, Drafted
from mrag.indexing.concurrency import all_of
from mrag.indexing.coverage import coverage, uncovered
from mrag.indexing.markers import PROMPT, MarkerPrompt
from mrag.indexing.records import Draft
from mrag.indexing.tagging import Window, tile, with_context
from mrag.indexing.validation import VALIDATOR, merged, parse
from mrag.models.language_model import Completion, LanguageModel
from mrag.models.prompt import prompt_identity
from mrag.models.tokens import Tokenizer
from mrag.schema import Document, SourceUnit, Usage
from mrag.settings import ExtractionSettings


class Markers(Builder):
    """Windows of whole units are asked concurrently; `parameters` name the model.

    Deviation: the paper's extractor reads the whole document, as `window_units` null does as far as its
    window allows. Small models mix up the units of one call, so that a window may be as small as one unit.
    """

    name = "markers"
    needs_model = True

    def __init__(
        self,
        settings: ExtractionSettings,
        tokenizer: Tokenizer,
        max_unit_tokens: int,
        parameters: Mapping[str, Any],
    ) -> None:
        made_by = {
            "prompt": prompt_identity(PROMPT),
            "validator": VALIDATOR,
            **settings.model_dump(exclude={"key_text"}),
        }
        super().__init__(tokenizer, max_unit_tokens, {**parameters, **made_by})
        self._settings = settings

    async def _draft(
        self, document: Document, units: Sequence[SourceUnit], model: LanguageModel | None
    ) -> Drafted:
        if model is None:
            raise SettingsError("The builder markers needs a language model; set language_model.")
        extraction = _Extraction(document, units, model, self._settings)
        await extraction.run()
        return Drafted(merged(extraction.drafts), extraction.usage, extraction.rejected)


class _Extraction:
    """The rounds of one document: all of it, then only what is still uncovered."""

    def __init__(
        self,
        document: Document,
        units: Sequence[SourceUnit],
        model: LanguageModel,
        settings: ExtractionSettings,
    ) -> None:
        self._title = document.title
        self._units = units
        self._model = model
        self._settings = settings
        self._prompt = MarkerPrompt(model, settings.max_pointers, settings.tokens_per_marker)
        self.drafts: list[Draft] = []
        self.usage = Usage()
        self.rejected = 0

    async def run(self) -> None:
        """Deviation: the paper retries the whole document; here a retry asks for the gaps only, each
        between its neighbours' text, as what was validated would only be paid for and thrown away."""
        await self._round(self._windows(self._units), attempt=0)
        for attempt in range(1, self._settings.retries + 1):
            if coverage(self._units, self.drafts) >= self._settings.coverage:
                return
            gaps = self._windows(uncovered(self._units, self.drafts))
            await self._round((self._placed(window) for window in gaps), attempt)

    def _windows(self, units: Sequence[SourceUnit]) -> Iterator[Window]:
        runs = tile(
            units, self._settings.window_units, lambda run: self._prompt.fits(Window(self._title, run))
        )
        return (Window(self._title, run) for run in runs)

    def _placed(self, window: Window) -> Window:
        placed = with_context(window, self._units)
        return placed if self._prompt.fits(placed) else window

    async def _round(self, windows: Iterator[Window], attempt: int) -> None:
        asked = list(windows)
        replies = await all_of(self._ask(window, attempt) for window in asked)
        for window, reply in zip(asked, replies, strict=True):
            if reply is not None:
                self._take(window, reply)

    def _take(self, window: Window, reply: Completion) -> None:
        parsed = parse(reply.text, window, self._settings.max_pointers)
        self.drafts += parsed.drafts
        self.rejected += len(parsed.rejected)
        self.usage += reply.usage

    async def _ask(self, window: Window, attempt: int) -> Completion | None:
        """A reply with something in it; None only for a window that an earlier round had answered."""
        for again in range(self._settings.retries + 1):
            try:
                return await self._model.complete(self._prompt.request(window, attempt + again))
            except EmptyReplyError:
                if again == self._settings.retries and attempt == 0:
                    raise
        return None

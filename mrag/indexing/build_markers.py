"""M-RAG III-B: an LLM writes the records, coverage is validated, gaps are asked for again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mrag.errors import CapReachedError, ModelError, RefusedError, SettingsError
from mrag.indexing.asking import Asker
from mrag.indexing.builder import Builder, Drafted, Estimate
from mrag.indexing.concurrency import all_of
from mrag.indexing.coverage import coverage, uncovered
from mrag.indexing.markers import MarkerPrompt, prompt_fingerprint
from mrag.indexing.merging import merged
from mrag.indexing.records import Draft
from mrag.indexing.tagging import Window, tile, with_context
from mrag.indexing.validation import VALIDATOR, Parsed, parse
from mrag.models.language_model import LanguageModel
from mrag.models.tokens import Tokenizer
from mrag.schema import Document, SourceUnit
from mrag.settings import DocumentSettings, ExtractionSettings

_NO_RECORD = "the reply holds no record"
_REFUSED = "the model refused the text"


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
        documents: DocumentSettings,
        parameters: Mapping[str, Any],
    ) -> None:
        made_by = {
            "prompt": prompt_fingerprint(settings),
            "validator": VALIDATOR,
            **settings.model_dump(exclude={"key_text", "examples"}),
        }
        super().__init__(tokenizer, documents, {**parameters, **made_by})
        self._settings = settings

    def estimates(self, document: Document, model: LanguageModel) -> Iterator[Estimate]:
        """The calls of the first round; what they leave uncovered is asked for beyond them."""
        units = self.units(document)
        return _Extraction(document, units, Asker(model), self._settings, self._tokenizer).estimates()

    async def _draft(self, document: Document, units: Sequence[SourceUnit], asker: Asker | None) -> Drafted:
        if asker is None:
            raise SettingsError("The builder markers needs a language model; set language_model.")
        extraction = _Extraction(document, units, asker, self._settings, self._tokenizer)
        await extraction.run()
        return Drafted(merged(extraction.drafts, self._settings.max_pointers), dict(extraction.rejected))


class _Extraction:
    """The rounds of one document: all of it, then only what is still uncovered."""

    def __init__(
        self,
        document: Document,
        units: Sequence[SourceUnit],
        asker: Asker,
        settings: ExtractionSettings,
        tokenizer: Tokenizer,
    ) -> None:
        self._title = document.title
        self._units = units
        self._asker = asker
        self._settings = settings
        self._prompt = MarkerPrompt(asker.model, settings, tokenizer)
        self._unanswered: dict[int, ModelError] = {}
        self.drafts: list[Draft] = []
        self.rejected = Counter[str]()

    def estimates(self) -> Iterator[Estimate]:
        """The first round."""
        for window in self._windows(self._units):
            yield Estimate(self._prompt.request(window), self._prompt.expected_tokens(window))

    async def run(self) -> None:
        """All windows, then what `retry` says, until enough is covered.

        Deviation: the paper retries the whole document (`document`); with `gaps` a retry asks for these
        only, each between its neighbours' text, as what was validated would be paid for and thrown away.

        Raises the error of a window that was never answered, after all the others were.
        """
        await self._round(self._windows(self._units), attempt=0)
        for attempt in range(1, self._settings.retries + 1):
            if not self._unanswered and coverage(self._units, self.drafts) >= self._settings.coverage:
                break
            if not all(error.retryable for error in self._unanswered.values()):
                break
            await self._again(attempt)
        for error in self._unanswered.values():
            raise error

    async def _again(self, attempt: int) -> None:
        """Another round; of two tries of the whole document the one that covers more is kept.

        Of a window from which it has nothing, what the other has is kept.
        """
        if self._settings.retry == "gaps":
            gaps = self._windows(uncovered(self._units, self.drafts))
            await self._round((self._placed(window) for window in gaps), attempt)
            return
        before, self.drafts = self.drafts, []
        windows = list(self._windows(self._units))
        await self._round(windows, attempt)
        worse, best = sorted((self.drafts, before), key=lambda drafts: coverage(self._units, drafts))
        covered = {number for draft in best for number in draft.pointers}
        missed = {
            number for window in windows if covered.isdisjoint(window.numbers) for number in window.numbers
        }
        self.drafts = best + [draft for draft in worse if missed.issuperset(draft.pointers)]

    def _windows(self, units: Sequence[SourceUnit]) -> Iterator[Window]:
        limit = self._settings.window_units if self._prompt.form.pointers else 1
        runs = tile(units, limit, lambda run: self._prompt.fits(Window(self._title, run)))
        return (Window(self._title, run) for run in runs)

    def _placed(self, window: Window) -> Window:
        placed = with_context(window, self._units)
        return placed if self._prompt.fits(placed) else window

    async def _round(self, windows: Iterable[Window], attempt: int) -> None:
        """Asks all windows at once. What was refused or failed keeps no other from being answered."""
        asked = list(windows)
        replies = await all_of(self._read(window, attempt) for window in asked)
        for window, reply in zip(asked, replies, strict=True):
            if isinstance(reply, Parsed):
                self._take(window, reply)
            elif isinstance(reply, ModelError) and (attempt == 0 or window.numbers[0] in self._unanswered):
                self._unanswered |= dict.fromkeys(window.numbers, reply)
        for reply in replies:
            if isinstance(reply, CapReachedError):
                raise reply

    async def _read(self, window: Window, attempt: int) -> Parsed | ModelError | CapReachedError:
        request = self._prompt.request(window, attempt)
        try:
            reply = await self._asker.complete(request)
        except RefusedError:
            return Parsed((), (_REFUSED,))
        except (ModelError, CapReachedError) as error:
            return error
        parsed = parse(reply.text, window, self._prompt.form)
        if parsed.drafts:
            await self._asker.validated(request, reply)
        return parsed

    def _take(self, window: Window, parsed: Parsed) -> None:
        self.drafts += parsed.drafts
        self.rejected.update(parsed.rejected or ([] if parsed.drafts else [_NO_RECORD]))
        for number in window.numbers:
            self._unanswered.pop(number, None)

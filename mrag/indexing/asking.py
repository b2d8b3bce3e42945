"""The language model of one document's extraction: behind the ledger, and under the cap."""

from __future__ import annotations

import asyncio

from mrag.errors import EmptyReplyError, RefusedError
from mrag.indexing.cap import Meter
from mrag.indexing.ledger import Entries, ledger_key
from mrag.models.language_model import Completion, LanguageModel, Request
from mrag.schema import Usage


class Asker:
    """Asks `model`, or takes what an earlier run had validated.

    `spent` is what this run paid, `reused` what earlier ones paid for the replies that were taken.
    Without `entries` nothing is kept, without a `meter` there is no cap.
    """

    def __init__(
        self, model: LanguageModel, entries: Entries | None = None, meter: Meter | None = None
    ) -> None:
        self.model = model
        self._entries = entries
        self._meter = meter
        self._used: set[str] = set()
        self.spent = Usage()
        self.reused = Usage()

    async def complete(self, request: Request) -> Completion:
        """One reply. Raises what `LanguageModel.complete` raises, and CapReachedError."""
        if self._entries:
            key = ledger_key(request, self.model.name)
            if reply := await asyncio.to_thread(self._entries.take, key):
                self._used.add(key)
                self.reused += reply.usage
                return reply
        return await self._ask(request)

    async def validated(self, request: Request, reply: Completion) -> None:
        """Keeps a reply that held something of use."""
        if self._entries:
            key = ledger_key(request, self.model.name)
            if key not in self._used:
                self._used.add(key)
                await asyncio.to_thread(self._entries.put, key, reply)

    async def finished(self) -> None:
        """The document is built: replies that it was not built from are no longer kept."""
        if self._entries:
            await asyncio.to_thread(self._entries.keep_only, frozenset(self._used))

    async def _ask(self, request: Request) -> Completion:
        prompt_tokens = self.model.count_prompt_tokens(request.messages)
        reserved = prompt_tokens + request.max_tokens
        if self._meter:
            await self._meter.reserve(reserved)
        usage = Usage(1, prompt_tokens, 0)
        try:
            reply = await self.model.complete(request)
            usage = reply.usage
            return reply
        except (EmptyReplyError, RefusedError) as useless:
            usage = Usage(1, *useless.tokens)
            raise
        finally:
            self.spent += usage
            if self._meter:
                await self._meter.settle(reserved, usage.tokens)

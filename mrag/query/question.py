"""A question as it travels: text, collection, and how its pool is found and read."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from mrag.collection.filter_forms import parse_filter
from mrag.errors import InputError
from mrag.query.turns import Turn, asked, parse_turns, searched
from mrag.schema import Filter
from mrag.settings import Method, PlainReader, ReaderSettings, RetrievalSettings, SaneReader, Settings

_READER: TypeAdapter[PlainReader | SaneReader] = TypeAdapter(ReaderSettings)
_RETRIEVAL = TypeAdapter(RetrievalSettings)
MAX_CHARACTERS = 20_000
_KEPT_CONTROLS = "\t\n\r"
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Question:
    """One question to one collection, or to those of its documents that pass the filter.

    `timeout_s` is for all of its stages together; `turns` are those before it, the oldest first. The answer
    to one that is `traced` has its pool.
    """

    text: str
    collection: str
    retrieval: RetrievalSettings = field(default_factory=RetrievalSettings)
    reader: PlainReader | SaneReader = field(default_factory=SaneReader)
    timeout_s: float | None = None
    filter: Filter = ()
    turns: tuple[Turn, ...] = ()
    traced: bool = False

    @property
    def searched(self) -> str:
        """What is searched for: the text, and what it follows."""
        return searched(self.text, self.turns)

    @property
    def asked(self) -> str:
        """What the model is asked: the text, and what it follows."""
        return asked(self.text, self.turns)


def checked_question(
    text: str,
    collection: str,
    retrieval: Mapping[str, Any] | RetrievalSettings | None = None,
    reader: Mapping[str, Any] | PlainReader | SaneReader | None = None,
    timeout_s: float | None = None,
    filter_: Mapping[str, Any] | Filter = (),
    turns: Sequence[Turn | Mapping[str, Any]] = (),
) -> Question:
    """A question from what a caller sent; mappings are read like the `method` section of the settings.

    Control characters and lone surrogates are taken out of the text. Raises InputError, which names the
    argument at fault: `question`, `collection`, `timeout_s`, `filter`, `turns`, or an option such as
    `budget_tokens`.
    """
    if not collection or _SURROGATE.search(collection):
        raise InputError("collection", "Name the collection that the question is for.")
    if timeout_s is not None and not timeout_s > 0:
        raise InputError("timeout_s", "timeout_s must be greater than 0.")
    return Question(
        clean(text),
        collection,
        _options(_RETRIEVAL, retrieval or {}, "retrieval"),
        _options(_READER, reader or {"name": "sane"}, "reader"),
        timeout_s,
        filter_ if isinstance(filter_, tuple) else parse_filter(filter_),
        parse_turns(turns),
    )


def clean(text: str) -> str:
    """The question without what no model or index can read; InputError when nothing is left, or too much."""
    if len(text) > MAX_CHARACTERS:
        raise InputError("question", f"The question is too long: shorten it to {MAX_CHARACTERS} characters.")
    text = _SURROGATE.sub("", text)
    text = "".join(c for c in text if c in _KEPT_CONTROLS or unicodedata.category(c) != "Cc").strip(
        "\ufeff \t\r\n"
    )
    if not any(c.isalnum() for c in text):
        raise InputError("question", "The question is empty: write at least one word.")
    return text


def _options(adapter: TypeAdapter[Any], given: Any, section: str) -> Any:
    """Options as settings. A settings object is checked anew: `model_copy` does not."""
    tree = dict(given) if isinstance(given, Mapping) else given.model_dump()
    try:
        return adapter.validate_python(tree)
    except ValidationError as error:
        fault = error.errors()[0]
        message = str(fault["msg"]).removeprefix("Value error, ").rstrip(".")
        name = _option(fault, message, section)
        if fault["type"] == "extra_forbidden":
            raise InputError(name, f"{name} is not an option of this {section}.") from None
        raise InputError(name, f"{name}: {message[:1].lower()}{message[1:]}.") from None


def _option(fault: Mapping[str, Any], message: str, section: str) -> str:
    """The option at fault; a rule between two options names the first of them in its message.

    A caller spells the `name` of a reader or a retrieval as that section itself.
    """
    fields = {*RetrievalSettings.model_fields, *PlainReader.model_fields, *SaneReader.model_fields} - {"name"}
    places = [str(part) for part in fault["loc"]]
    if fault["type"] == "extra_forbidden":
        return places[-1]
    named = [part for part in places if part in fields] or [message.split(" ")[0]]
    return named[-1] if named[-1] in fields else section


def question_for(settings: Settings, text: str, **options: Any) -> Question:
    """A question as the settings would ask it, with the options that a caller gave laid over them.

    Options are `collection`, `filter`, `timeout_s`, `turns`, `trace`, the names `retrieval` and `reader`, and
    any of the reader's own (`budget_tokens`, `w`, `k`); None counts as not given. A reader that is not the
    configured one is the default's. Raises InputError as `checked_question` does.
    """
    given = {name: value for name, value in options.items() if value is not None}
    collection = given.pop("collection", settings.collection.name)
    timeout_s, filter_ = given.pop("timeout_s", None), given.pop("filter", ())
    turns, traced = given.pop("turns", ()), given.pop("trace", False)
    retrieval = {**settings.method.retrieval.model_dump(), **_named(given, "retrieval")}
    reader = {"name": settings.method.reader.name, **_named(given, "reader"), **given}
    usual = (settings.method.reader, Method().reader)
    of_that_name = next((one.model_dump() for one in usual if one.name == reader["name"]), {})
    reader = {**of_that_name, **reader}
    question = checked_question(text, collection, retrieval, reader, timeout_s, filter_, turns)
    return replace(question, traced=traced)


def _named(given: dict[str, Any], part: str) -> dict[str, Any]:
    return {"name": given.pop(part)} if part in given else {}

"""How callers write a metadata filter: as JSON, or in the short form of a command line.

As JSON it is an object of fields, all of which must hold. A field is tested by a value, by a list (any of
its values), or by an object of tests:
`{"lang": "en", "kind": ["report", "note"], "year": {"gte": 2020, "lt": 2024}, "path": {"prefix": "a/"}}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from mrag.collection.filters import is_number, span
from mrag.errors import InputError
from mrag.schema import Condition, Filter, Scalar

MAX_FIELDS = 16
MAX_VALUES = 1000
MAX_CHARACTERS = 1000

_SHORT = re.compile(r"(?P<field>[^<>=^]+)(?P<sign>\^=|>=|<=|=|>|<)(?P<value>.*)", re.DOTALL)
_SIGNS = {"^=": "prefix", ">=": "gte", "<=": "lte", "=": "in", ">": "gt", "<": "lt"}
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,17})(?:\.\d{1,17})?", re.ASCII)
_TRUTHS = {"true": True, "false": False}


def _scalar(value: Any) -> Any:
    if isinstance(value, str) and len(value) <= MAX_CHARACTERS:
        return value
    if isinstance(value, bool) or (is_number(value) and abs(value) < float("inf")):
        return value
    raise ValueError(f"it must be a number, true, false, or a text of at most {MAX_CHARACTERS} characters")


def _bound(value: Any) -> Any:
    if is_number(_scalar(value)) or (isinstance(value, str) and span(value)):
        return value
    raise ValueError("it must be a number, or a date such as 2024-03-01")


def _text(value: Any) -> Any:
    if isinstance(_scalar(value), str):
        return value
    raise ValueError("it must be a text")


_Scalar = Annotated[Any, AfterValidator(_scalar)]
_Bound = Annotated[Any, AfterValidator(_bound)]


class FieldTests(BaseModel):
    """What one value of a field must pass; at least one test, and no other than these."""

    model_config = ConfigDict(extra="forbid")

    equals: _Scalar = None
    in_: list[_Scalar] = Field([], alias="in", max_length=MAX_VALUES)
    gt: _Bound = None
    gte: _Bound = None
    lt: _Bound = None
    lte: _Bound = None
    prefix: Annotated[Any, AfterValidator(_text)] = None


_NAMES = tuple(field.alias or name for name, field in FieldTests.model_fields.items())


def parse_filter(tree: Any) -> Filter:
    """The filter of a JSON object; raises InputError (field `filter`), which names the test at fault."""
    if not isinstance(tree, Mapping) or not all(isinstance(field, str) for field in tree):
        raise InputError("filter", "A filter must be an object: fields of the metadata, each with its test.")
    if len(tree) > MAX_FIELDS:
        raise InputError("filter", f"A filter has at most {MAX_FIELDS} fields: this one has {len(tree)}.")
    return tuple(_condition(field, tests) for field, tests in tree.items())


def _condition(field: str, tests: Any) -> Condition:
    tree = tests if isinstance(tests, Mapping) else {"in" if isinstance(tests, list) else "equals": tests}
    if not tree:
        raise InputError("filter", f"The filter of {field[:80]!r} is empty: {_known()}.")
    try:
        given = FieldTests.model_validate(tree).model_dump(by_alias=True, exclude_unset=True)
    except ValidationError as error:
        raise InputError("filter", _sentence(field, error.errors()[0])) from None
    operands = {name: tuple(value) if name == "in" else (value,) for name, value in given.items()}
    return Condition(field, tuple(operands.items()))


def _sentence(field: str, fault: Mapping[str, Any]) -> str:
    test = str(fault["loc"][0])[:80]
    reason = str(fault["msg"]).removeprefix("Value error, ").rstrip(".")
    if fault["type"] == "extra_forbidden":
        reason = _known()
    return f"The filter of {field[:80]!r} has a wrong {test!r}: {reason[:1].lower()}{reason[1:]}."


def _known() -> str:
    return f"the tests are {', '.join(_NAMES)}"


def short_filter(texts: Iterable[str]) -> Filter:
    """The filter of texts such as `field=value` and `field>=value`, all of which must hold.

    The signs are `=`, `>=`, `>`, `<=`, `<` and `^=` (prefix). A value that looks like a number is one; with
    `=`, which knows true and false too, it may be a text as well. Raises InputError (field `filter`).
    """
    tree: dict[str, dict[str, Any]] = {}
    for text in texts:
        found = _SHORT.fullmatch(text)
        if found is None:
            raise InputError("filter", f"A filter must look like field=value or field>=value, not {text!r}.")
        field, test, value = found["field"].strip(), _SIGNS[found["sign"]], found["value"].strip()
        tests = tree.setdefault(field, {})
        if test in tests:
            raise InputError("filter", f"The filter of {field!r} has {found['sign']} twice: give it once.")
        tests[test] = _readings(value) if test == "in" else value if test == "prefix" else _number(value)
    return parse_filter(tree)


def _readings(text: str) -> list[Scalar]:
    return list(dict.fromkeys([_TRUTHS.get(text, _number(text)), text]))


def _number(text: str) -> Scalar:
    if not _NUMBER.fullmatch(text):
        return text
    return float(text) if "." in text else int(text)

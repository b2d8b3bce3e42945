"""JSON lines: one document a line, read as a stream."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import IO, Any, AnyStr

from mrag.documents.decoding import HEAD_BYTES, clean, marked_encoding, plain, refuse_binary
from mrag.errors import DocumentError
from mrag.schema import Document, Outcome, Status

SUFFIXES = (".jsonl",)
MAX_LINE = 64 << 20
# What every reader of JSON can hold, Arrow and HTTP clients among them.
MAX_DEPTH = 64
MAX_INTEGER = 1 << 63
_BLANK_LINES = re.compile(r"\n(?:[^\S\n]*\n)+")
_FIELDS = ("id", "text", "paragraphs", "title", "metadata")


def load(path: Path, name: str) -> Iterator[Document | Outcome]:
    """A document for each line that is not blank, or its failure, named `path#line`.

    Raises OSError, and DocumentError where the file as a whole is no text.
    """
    for number, line in _lines(path):
        if line.strip():
            yield _document_or_failure(line, name, number)


def _document_or_failure(line: bytes | str, name: str, number: int) -> Document | Outcome:
    try:
        return _document(_fields(line), name)
    except DocumentError as error:
        return Outcome(f"{name}#{number}", Status.FAILED, str(error))


def _lines(path: Path) -> Iterator[tuple[int, bytes | str]]:
    with path.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
        refuse_binary(head)
        stream.seek(0)
        encoding = marked_encoding(head) or "utf-8"
        # JSON is UTF-8. Decoded one by one, a broken line costs itself; UTF-16 has no lines of bytes.
        if encoding.startswith("utf-8"):
            yield from enumerate(_bounded(stream), start=1)
        else:
            text = io.TextIOWrapper(stream, encoding, errors="replace", newline="\n")
            yield from enumerate(_bounded(text), start=1)


def _bounded(stream: IO[AnyStr]) -> Iterator[AnyStr]:
    """The lines, of one that is too long no more than shows that it is."""
    while line := stream.readline(MAX_LINE + 1):
        yield line
        while len(line) > MAX_LINE and line[-1:] not in ("\n", b"\n"):
            line = stream.readline(MAX_LINE + 1)


def _document(fields: Mapping[str, Any], name: str) -> Document:
    own = {key: value for key, value in fields.items() if key not in _FIELDS}
    return Document(
        id=_identifier(fields),
        text=_text(fields),
        title=" ".join(plain(_string(fields, "title")).split()),
        metadata=_clean_tree({"path": name, "format": "jsonl", **own, **_metadata(fields)}),
    )


def _fields(line: bytes | str) -> Mapping[str, Any]:
    if len(line) > MAX_LINE:
        raise DocumentError(f"The line is longer than {MAX_LINE:,} bytes; split the document.")
    try:
        plain = line.decode("utf-8-sig") if isinstance(line, bytes) else line
        # Not strict: a raw control character within a string harms nobody.
        fields = json.loads(plain, parse_constant=_refuse_constant, strict=False)
    except UnicodeDecodeError:
        raise DocumentError("The line is not valid UTF-8.") from None
    except ValueError as error:
        raise DocumentError(f"The line is not valid JSON: {error}.") from None
    except RecursionError:
        raise DocumentError(f"The line is nested more than {MAX_DEPTH} levels deep.") from None
    if not isinstance(fields, dict):
        raise DocumentError("The line must be a JSON object with an id and a text.")
    return fields


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")


def _identifier(fields: Mapping[str, Any]) -> str:
    identifier = _string(fields, "id")
    if not identifier.strip():
        raise DocumentError("The line needs an id, a string that is not blank.")
    return identifier


def _text(fields: Mapping[str, Any]) -> str:
    if fields.get("text") is not None:
        return plain(_string(fields, "text"))
    paragraphs = fields.get("paragraphs")
    if not isinstance(paragraphs, list) or not all(isinstance(item, str) for item in paragraphs):
        raise DocumentError("The line needs a text, or paragraphs as a list of strings.")
    # A blank line would part a paragraph in two, and shift the numbers of those behind it.
    return "\n\n".join(_BLANK_LINES.sub("\n", plain(item)) for item in paragraphs)


def _metadata(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = fields.get("metadata")
    if not isinstance(metadata, dict | None):
        raise DocumentError("The line's metadata must be a JSON object.")
    return metadata or {}


def _string(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DocumentError(f"The line's {key} must be a string.")
    return clean(value)


def _clean_tree(value: Any, depth: int = 0) -> Any:
    if depth > MAX_DEPTH:
        raise DocumentError(f"The line is nested more than {MAX_DEPTH} levels deep; flatten its metadata.")
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_clean_tree(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {clean(key): _clean_tree(item, depth + 1) for key, item in value.items()}
    if _is_too_large(value):
        raise DocumentError("The line holds a number beyond 64 bits; write it as a string.")
    return value


def _is_too_large(value: Any) -> bool:
    if isinstance(value, int):
        return not -MAX_INTEGER <= value < MAX_INTEGER
    return isinstance(value, float) and not isfinite(value)

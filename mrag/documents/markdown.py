"""Markdown files: the text as it stands, with the headings that CommonMark sees in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate, pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from mrag.documents.decoding import decode
from mrag.documents.reading import read_file
from mrag.documents.titles import readable
from mrag.schema import Document, Heading

SUFFIXES = (".md", ".markdown")

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(?=[\w-]+[ \t]*:)(?:[ \t]*\S.*\n)+?---[ \t]*(?:\n|\Z)")
_INLINE = MarkdownIt("commonmark")
_BLOCKS = MarkdownIt("commonmark").enable("table").disable("inline")


def load(path: Path, name: str) -> Iterator[Document]:
    """One document a file, titled by its first heading of level 1. Raises OSError and DocumentError."""
    text = decode(read_file(path))
    headings = find_headings(text)
    title = next((heading.text for heading in headings if heading.level == 1 and heading.text), "")
    yield Document(
        id=name,
        text=text,
        title=title or readable(name),
        metadata={"path": name, "format": "markdown"},
        headings=headings,
    )


def find_headings(text: str) -> tuple[Heading, ...]:
    """Headings of both forms at the top level: none from code, quotations, lists or front matter."""
    starts = list(accumulate((len(line) + 1 for line in text.split("\n")), initial=0))
    # Front matter is no Markdown: its closing line would make a heading of the last entry.
    body = _FRONT_MATTER.sub(lambda match: "\n" * match[0].count("\n"), text, count=1)
    # The parser takes a carriage return for a line end, and `starts` does not.
    parsed = _BLOCKS.parse(body.replace("\r", " "))
    return tuple(
        _heading(text, starts, opening, content)
        for opening, content in pairwise(parsed)
        if opening.type == "heading_open" and opening.level == 0
    )


def _heading(text: str, starts: list[int], opening: Token, content: Token) -> Heading:
    first, last = opening.map or [0, 0]
    lines = text[starts[first] : starts[last] - 1]
    start = starts[first] + len(lines) - len(lines.lstrip())
    return Heading(start, start + len(lines.strip()), int(opening.tag[1:]), _plain(content.content))


def _plain(content: str) -> str:
    """A heading's content without its marks; a picture counts with its alternative text."""
    tokens = [token for block in _INLINE.parseInline(content) for token in block.children or ()]
    return " ".join("".join(_words(token) for token in tokens).split())


def _words(token: Token) -> str:
    if token.type in ("softbreak", "hardbreak"):
        return " "
    return "" if token.type == "html_inline" else token.content

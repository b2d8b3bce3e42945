"""HTML pages: their text in reading order, without scripts, styles and navigation."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lxml.html import HtmlElement

from mrag.documents.composing import Composer
from mrag.documents.decoding import decode, plain
from mrag.documents.markup import compose, parse
from mrag.documents.reading import read_file
from mrag.documents.titles import readable
from mrag.schema import Document

SUFFIXES = (".html", ".htm", ".xhtml")
MAX_MIB = 64  # a tree takes ten times as much memory

_DECLARED = re.compile(rb"(?:charset|encoding)\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.IGNORECASE)
_HEAD_BYTES = 4096
_OF_TEXTS = ("big5", "cp", "euc", "gb", "hz", "iso2022", "iso8859", "koi8", "mac", "shift_jis", "tis")
# As browsers do: what calls itself the smaller set is mostly in the larger one.
_READ_AS = {"ascii": "cp1252", "iso8859-1": "cp1252", "gb2312": "gb18030", "gbk": "gb18030"}
_READ_AS |= {"shift_jis": "cp932", "euc_kr": "cp949"}
_META = {
    "author": ("author", "article:author", "dc.creator", "dcterms.creator"),
    "date": ("article:published_time", "date", "dc.date", "dcterms.created", "dcterms.date", "datepublished"),
    "modified": ("article:modified_time", "last-modified", "dcterms.modified", "datemodified"),
}


def load(path: Path, name: str) -> Iterator[Document]:
    """One document a file, titled by its first heading of level 1, else by its title element.

    Raises OSError and DocumentError.
    """
    data = read_file(path, MAX_MIB)
    tree = parse(decode(data, declared_encoding(data[:_HEAD_BYTES])))
    composer = Composer()
    about: dict[str, Any] = {"path": name, "format": "html"}
    if tree is None:
        yield composer.document(name, readable(name), about)
        return
    compose(tree, composer)
    title = next((heading.text for heading in composer.headings if heading.level == 1), "")
    yield composer.document(name, title or _title(tree) or readable(name), about | dict(_metadata(tree)))


def declared_encoding(head: bytes) -> str | None:
    """The encoding that the page itself names, where it is one of texts and Python knows it."""
    found = _DECLARED.search(head)
    try:
        name = codecs.lookup(found[1].decode("ascii")).name if found else ""
    except LookupError:
        return None
    return _READ_AS.get(name, name if name.startswith(_OF_TEXTS) else None)


def _title(tree: HtmlElement) -> str:
    element = tree.find(".//title")
    return "" if element is None else " ".join(plain(element.text_content()).split())


def _metadata(tree: HtmlElement) -> Iterator[tuple[str, str]]:
    named = {
        (element.get("name") or element.get("property") or element.get("itemprop") or "").lower(): element
        for element in reversed(list(tree.iter("meta")))
    }
    for key, names in _META.items():
        values = (named[name].get("content") or "" for name in names if name in named)
        if value := next((words for value in values if (words := " ".join(plain(value).split()))), ""):
            yield key, value
    if language := (tree.get("lang") or "").strip():
        yield "language", plain(language)

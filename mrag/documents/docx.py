"""Word documents: Mammoth makes HTML of them, which is read like any other."""

from __future__ import annotations

import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.parsers.expat import ExpatError

import mammoth
from lxml import etree

from mrag.documents.composing import Composer
from mrag.documents.decoding import plain
from mrag.documents.markup import compose, parse
from mrag.documents.reading import read_file
from mrag.documents.titles import readable
from mrag.errors import DocumentError
from mrag.schema import Document

SUFFIXES = (".docx",)
MAX_XML_MIB = 64

_STYLES = "p[style-name='Title'] => h1:fresh\np[style-name='Subtitle'] => p:fresh"
_BACK_TO_THE_TEXT = "starts-with(@href, '#footnote-ref') or starts-with(@href, '#endnote-ref')"
_OLE_MARK = b"\xd0\xcf\x11\xe0"
# What Mammoth, the zip and the XML parser raise on files that Word didn't write.
_BROKEN = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, ExpatError, etree.LxmlError,
    OSError, EOFError, LookupError, ValueError, AttributeError, TypeError, AssertionError,
    OverflowError, RuntimeError,
)  # fmt: skip
_CORE = {
    "title": "{http://purl.org/dc/elements/1.1/}title",
    "author": "{http://purl.org/dc/elements/1.1/}creator",
    "date": "{http://purl.org/dc/terms/}created",
    "modified": "{http://purl.org/dc/terms/}modified",
}


def load(path: Path, name: str) -> Iterator[Document]:
    """One document a file, titled by its title or first heading of level 1. Raises OSError and DocumentError.

    Notes follow at the end; pictures, comments, deletions, and heads and feet of pages are left out.
    """
    data = read_file(path)
    if data.startswith(_OLE_MARK):
        raise DocumentError("It is encrypted, or an old .doc; save it as .docx without a password.")
    try:
        markup, about = _unpacked(data)
    except _BROKEN as error:
        raise DocumentError(f"It is no Word document that can be read ({type(error).__name__}).") from error
    composer = Composer()
    tree = parse(markup)
    if tree is not None:
        for link in tree.xpath(f"//a[{_BACK_TO_THE_TEXT}]"):
            link.drop_tree()
        compose(tree, composer)
    heading = next((each.text for each in composer.headings if each.level == 1), "")
    title = about.pop("title", "")
    yield composer.document(
        name, heading or title or readable(name), {"path": name, "format": "docx", **about}
    )


def _unpacked(data: bytes) -> tuple[str, dict[str, Any]]:
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        _refuse_bomb(package)
        about = _core_properties(package)
    converted = mammoth.convert_to_html(
        io.BytesIO(data), style_map=_STYLES, convert_image=lambda image: [], external_file_access=False
    )
    return converted.value, about


def _refuse_bomb(package: zipfile.ZipFile) -> None:
    """Raises DocumentError for a package whose XML is absurdly large; no more than it says is unpacked."""
    xml = (part for part in package.infolist() if not part.filename.startswith("word/media/"))
    mib = sum(part.file_size for part in xml) / 2**20
    if mib > MAX_XML_MIB:
        raise DocumentError(f"It unpacks to {mib:,.0f} MiB and {MAX_XML_MIB} are read; split it.")


def _core_properties(package: zipfile.ZipFile) -> dict[str, Any]:
    if "docProps/core.xml" not in package.namelist():
        return {}
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    root = etree.fromstring(package.read("docProps/core.xml"), parser)
    found = {key: " ".join(plain(root.findtext(tag) or "").split()) for key, tag in _CORE.items()}
    return {key: value for key, value in found.items() if value}

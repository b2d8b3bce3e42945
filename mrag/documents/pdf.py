"""PDF files, page by page: paragraphs, headings by their type, tables row by row."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from mrag.documents.composing import Composer
from mrag.documents.decoding import UnsupportedError, plain
from mrag.documents.pages.glyphs import Piece, page_pieces
from mrag.documents.pages.layout import Block, page_blocks
from mrag.documents.pages.repeats import without_repeats
from mrag.documents.pages.style import heading_levels, without_line_ends
from mrag.documents.reading import read_file
from mrag.documents.titles import readable
from mrag.errors import DocumentError
from mrag.schema import Document

SUFFIXES = (".pdf",)
MAX_PAGES = 20_000

_PDFIUM = threading.Lock()  # PDFium must not be entered by two threads at once
_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(?:(\d\d)(\d\d)(\d\d)?(?:(Z)|([+-]\d\d)'?(\d\d)?)?)?")
_NO_TITLE = re.compile(r"microsoft \w+ - .*|untitled.*|\S*|.*\.\w{2,5}", re.IGNORECASE)
_REFUSALS = {
    pdfium_c.FPDF_ERR_PASSWORD: "It is encrypted; save it without a password.",
    pdfium_c.FPDF_ERR_SECURITY: "It is encrypted in a way that can't be read; save it without a password.",
}


def load(path: Path, name: str) -> Iterator[Document]:
    """One document a file, titled as the file says, else by its name.

    What repeats at the edges of its pages is there once, page numbers are not. Pages that are broken
    are named in the metadata. Raises OSError and DocumentError.
    """
    data = read_file(path)
    with _PDFIUM, closing(_opened(data)) as file:
        about = _about(file)
        pages = [_page(file, number) for number in range(len(file))]
    _refuse_unread(pages)
    composer = Composer()
    _compose(pages, composer)
    title = " ".join(plain(about.get("Title", "")).split())
    if _NO_TITLE.fullmatch(title):
        title = readable(name)
    yield composer.document(name, title, {"path": name, "format": "pdf", **dict(_metadata(about, pages))})


def _opened(data: bytes) -> pdfium.PdfDocument:
    try:
        file = pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        refusal = _REFUSALS.get(error.err_code, "It is damaged, or no PDF file; make it anew.")
        raise DocumentError(refusal) from error
    if len(file) > MAX_PAGES:
        with closing(file):
            raise DocumentError(f"It has {len(file):,} pages and {MAX_PAGES:,} are read; split it.")
    return file


@dataclass(frozen=True)
class _Page:
    """What stands on a page: along it, and across it."""

    pieces: list[Piece]
    across: list[str]
    is_picture: bool = False
    is_broken: bool = False


def _page(file: pdfium.PdfDocument, number: int) -> _Page:
    try:
        with closing(file[number]) as page:
            pieces, across = page_pieces(page)
            is_empty = not pieces and not across
            return _Page(pieces, across, is_picture=is_empty and _has_picture(page))
    except pdfium.PdfiumError:
        return _Page([], [], is_broken=True)


def _has_picture(page: pdfium.PdfPage) -> bool:
    return next(page.get_objects(filter=[pdfium_c.FPDF_PAGEOBJ_IMAGE]), None) is not None


def _refuse_unread(pages: Sequence[_Page]) -> None:
    """Raises DocumentError where pages are broken or pictures and no other has text."""
    if any(page.pieces or page.across for page in pages):
        return
    if any(page.is_picture for page in pages):
        raise UnsupportedError("Its pages are pictures without text; run text recognition (OCR) over them.")
    if any(page.is_broken for page in pages):
        raise DocumentError("None of its pages can be read; make it anew.")


# --------------------------------------------------------------------------- text


def _compose(pages: Sequence[_Page], composer: Composer) -> None:
    blocks = [list(page_blocks(pieces)) for pieces in without_repeats([page.pieces for page in pages])]
    texts = iter(without_line_ends([block.text for page in blocks for block in page]))
    level_of = heading_levels([block for page in blocks for block in page])
    for page, on_it in zip(pages, blocks, strict=True):
        composer.page()
        for block in on_it:
            _add(replace(block, text=next(texts)), level_of(block), composer)
        for text in page.across:
            composer.block(text)


def _add(block: Block, level: int | None, composer: Composer) -> None:
    if level:
        composer.heading(block.text, level)
    else:
        composer.block(block.text)


# --------------------------------------------------------------------------- metadata


def _about(file: pdfium.PdfDocument) -> dict[str, str]:
    try:
        return dict(file.get_metadata_dict(skip_empty=True))
    except UnicodeDecodeError:
        return {}


def _metadata(about: Mapping[str, str], pages: Sequence[_Page]) -> Iterator[tuple[str, Any]]:
    yield "pages", len(pages)
    if author := " ".join(plain(about.get("Author", "")).split()):
        yield "author", author
    for key, name in (("date", "CreationDate"), ("modified", "ModDate")):
        if date := iso_date(about.get(name, "")):
            yield key, date
    for key, numbers in (
        ("pages_without_text", [at for at, page in enumerate(pages, start=1) if page.is_picture]),
        ("broken_pages", [at for at, page in enumerate(pages, start=1) if page.is_broken]),
    ):
        if numbers:
            yield key, numbers


def iso_date(date: str) -> str:
    """`D:20230817105302+00'00'` becomes `2023-08-17T10:53:02+00:00`; nothing where it is no date."""
    found = _DATE.match(date.strip())
    if not found:
        return ""
    year, month, day, hour, minute, second, utc, hours, minutes = found.groups()
    zone = "+00:00" if utc else f"{hours}:{minutes or '00'}" if hours else ""
    time = f"T{hour}:{minute}:{second or '00'}{zone}" if hour else ""
    try:
        full = datetime.fromisoformat(f"{year}-{month or '01'}-{day or '01'}{time}")
    except ValueError:
        return ""
    return full.isoformat() if time else full.date().isoformat()

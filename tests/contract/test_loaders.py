"""What every loader keeps: a good file is read, any other ends in a status, and offsets are exact."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from docx.document import Document as Word
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mrag.documents.loaders import LOADERS, read_input
from mrag.documents.units import split_units
from mrag.schema import Document, Outcome, Status
from tests.document_files import draw_lines, drawn_pdf, story_pdf, word_file
from tests.unit.test_units import WordTokenizer

TEXT = "Ada built it in 1843."


def makers(word: Word) -> None:
    word.add_heading("Makers", 1)
    word.add_paragraph(TEXT)


GOOD: dict[str, bytes] = {
    ".txt": TEXT.encode(),
    ".md": f"# Makers\n\n{TEXT}".encode(),
    ".markdown": TEXT.encode(),
    ".html": f"<h1>Makers</h1><p>{TEXT}".encode(),
    ".htm": TEXT.encode(),
    ".xhtml": f"<html xmlns='http://www.w3.org/1999/xhtml'><body><p>{TEXT}</p></body></html>".encode(),
    ".pdf": story_pdf("# Makers", TEXT),
    ".docx": word_file(makers),
    ".jsonl": json.dumps({"id": "a", "title": "Makers", "text": TEXT}).encode(),
}
EMPTY: dict[str, bytes] = {
    **dict.fromkeys((".txt", ".md", ".markdown", ".html", ".htm", ".xhtml"), b" \n\xef\xbb\xbf\n"),
    ".pdf": drawn_pdf(lambda sheet: draw_lines(sheet, [" "])),
    ".docx": word_file(lambda word: None),
    ".jsonl": b'{"id": "a", "text": " \\u200b "}',
}

SUFFIX = pytest.mark.parametrize("suffix", sorted(LOADERS))


def load(folder: Path, suffix: str, data: bytes) -> list[Document | Outcome]:
    path = folder / f"sub/the-file{suffix}"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return list(read_input(folder, path))


def check(items: list[Document | Outcome]) -> None:
    """What holds of whatever a loader gives."""
    for item in items:
        if isinstance(item, Outcome):
            assert item.status in (Status.FAILED, Status.UNSUPPORTED)
            assert item.detail.endswith(".")
        else:
            check_document(item)


def check_document(document: Document) -> None:
    text = document.text
    text.encode()
    json.dumps(dict(document.metadata), allow_nan=False)
    assert "\x00" not in text
    assert "\r" not in text
    end = 0
    for heading in document.headings:
        assert end <= heading.start < heading.end <= len(text)
        end = heading.end
    assert list(document.pages) == sorted(document.pages)
    assert not document.pages or (document.pages[0] == 0 and document.pages[-1] <= len(text))
    for unit in split_units(document, WordTokenizer(), 50):
        assert text[unit.start : unit.end] == unit.text == unit.text.strip() != ""
        assert (unit.page is None) == (not document.pages)


def test_the_suite_knows_every_format() -> None:
    assert set(GOOD) == set(EMPTY) == set(LOADERS)


@SUFFIX
def test_a_good_file_is_a_document_with_its_title_and_metadata(tmp_path: Path, suffix: str) -> None:
    [found] = items = load(tmp_path, suffix, GOOD[suffix])
    check(items)
    assert isinstance(found, Document)
    assert TEXT in found.text
    assert found.title in ("Makers", "The file")
    assert found.metadata["path"] == f"sub/the-file{suffix}"
    assert found.metadata["format"]


@SUFFIX
def test_the_same_file_is_read_the_same_each_time(tmp_path: Path, suffix: str) -> None:
    assert load(tmp_path, suffix, GOOD[suffix]) == load(tmp_path, suffix, GOOD[suffix])


@SUFFIX
def test_a_file_without_text_is_a_document_without_text(tmp_path: Path, suffix: str) -> None:
    [found] = items = load(tmp_path, suffix, EMPTY[suffix])
    check(items)
    assert isinstance(found, Document), found
    assert found.text.strip() == ""


@SUFFIX
@pytest.mark.parametrize(
    "shorten", [lambda data: data[: len(data) // 2], lambda data: data[:-30], lambda data: b""]
)
def test_a_file_that_is_cut_ends_in_a_status(
    tmp_path: Path, suffix: str, shorten: Callable[[bytes], bytes]
) -> None:
    check(load(tmp_path, suffix, shorten(GOOD[suffix])))


@SUFFIX
def test_a_file_of_another_format_ends_in_a_status(tmp_path: Path, suffix: str) -> None:
    for data in GOOD.values():
        check(load(tmp_path, suffix, data))


EDITS = st.lists(st.tuples(st.floats(0, 0.999), st.binary(max_size=12)), min_size=1, max_size=6)


@SUFFIX
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=400) | st.text(max_size=200).map(str.encode))
@example(data=b"%PDF-1.7\n%%EOF")
@example(data=b"PK\x05\x06" + bytes(18))
def test_any_bytes_end_in_a_status(tmp_path: Path, suffix: str, data: bytes) -> None:
    check(load(tmp_path, suffix, data))


@SUFFIX
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=EDITS)
def test_a_damaged_file_ends_in_a_status(
    tmp_path: Path, suffix: str, edits: list[tuple[float, bytes]]
) -> None:
    damaged = bytearray(GOOD[suffix])
    for place, patch in edits:
        at = int(place * len(damaged))
        damaged[at : at + len(patch)] = patch
    check(load(tmp_path, suffix, bytes(damaged)))

"""Word documents: what Mammoth makes of them, their properties, and packages that are none."""

from __future__ import annotations

import io
import zipfile
from datetime import datetime
from pathlib import Path

import pytest
from docx.document import Document as Word
from docx.oxml import OxmlElement
from docx.oxml.ns import qn

from mrag.documents.loaders import read_input
from mrag.schema import Document, Outcome, Status
from tests.document_files import word_file


def read(folder: Path, data: bytes) -> Document | Outcome:
    (folder / "a.docx").write_bytes(data)
    [item] = read_input(folder, folder / "a.docx")
    return item


def load(folder: Path, data: bytes) -> Document:
    item = read(folder, data)
    assert isinstance(item, Document), item
    return item


def report(word: Word) -> None:
    word.add_heading("Ferries", 0)
    word.add_heading("Alma", 1)
    word.add_paragraph("It was built in 1962.")
    word.add_paragraph("ninety passengers", "List Bullet")
    word.add_paragraph("no cars", "List Bullet")
    table = word.add_table(3, 3)
    for row, texts in zip(
        table.rows, [("", "2023", "2022"), ("Fares", "5", "6"), ("Fuel", "7", "8")], strict=True
    ):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    word.core_properties.author = "Ann"
    word.core_properties.created = datetime(2024, 3, 1, 12)
    word.core_properties.modified = datetime(2024, 4, 1, 12)


def test_headings_lists_tables_and_properties(tmp_path: Path) -> None:
    found = load(tmp_path, word_file(report))
    assert found.text == (
        "Ferries\n\nAlma\n\nIt was built in 1962.\n\n- ninety passengers\n- no cars\n\n"
        "| 2023 | 2022\n| Fares | 2023: 5 | 2022: 6\n| Fuel | 2023: 7 | 2022: 8"
    )
    assert [(each.level, found.text[each.start : each.end]) for each in found.headings] == [
        (1, "Ferries"),
        (1, "Alma"),
    ]
    assert found.title == "Ferries"
    assert found.metadata == {
        "path": "a.docx",
        "format": "docx",
        "author": "Ann",
        "date": "2024-03-01T12:00:00Z",
        "modified": "2024-04-01T12:00:00Z",
    }


def test_a_title_from_the_properties_or_the_name(tmp_path: Path) -> None:
    def titled(word: Word) -> None:
        word.add_paragraph("x")
        word.core_properties.title = "On ferries"

    assert load(tmp_path, word_file(titled)).title == "On ferries"
    assert load(tmp_path, word_file(lambda word: word.add_paragraph("x") and None)).title == "A"


def test_merged_cells_and_a_row_marked_as_head(tmp_path: Path) -> None:
    def merged(word: Word) -> None:
        table = word.add_table(3, 3)
        for number, cell in enumerate(cell for row in table.rows for cell in row.cells):
            cell.text = f"c{number}"
        table.cell(0, 1).merge(table.cell(0, 2)).text = "both"
        table.cell(1, 0).merge(table.cell(2, 0)).text = "side"
        head = OxmlElement("w:tblHeader")
        table.rows[0]._tr.get_or_add_trPr().append(head)

    assert load(tmp_path, word_file(merged)).text.split("\n") == [
        "| c0 | both",
        "| side | both: c4 | both: c5",
        "| side | both: c7 | both: c8",
    ]


def test_what_was_inserted_is_read_and_what_was_deleted_is_not(tmp_path: Path) -> None:
    def tracked(word: Word) -> None:
        paragraph = word.add_paragraph("It was built in ")
        for tag, text_tag, text in (("w:ins", "w:t", "1962"), ("w:del", "w:delText", "1961")):
            change, run, words = OxmlElement(tag), OxmlElement("w:r"), OxmlElement(text_tag)
            change.set(qn("w:id"), "1")
            words.text = text
            run.append(words)
            change.append(run)
            paragraph._p.append(change)

    assert load(tmp_path, word_file(tracked)).text == "It was built in 1962"


def test_a_document_without_text(tmp_path: Path) -> None:
    assert load(tmp_path, word_file(lambda word: None)).text == ""


def package(**parts: str | bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return out.getvalue()


def failure(folder: Path, data: bytes) -> str:
    item = read(folder, data)
    assert isinstance(item, Outcome), item
    assert item.status is Status.FAILED
    return item.detail


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no zip at all",
        word_file(report)[:-40],
        package(),
        package(**{"word/document.xml": "<w:document"}),
        package(**{"word/document.xml": "<a/>", "docProps/core.xml": "<"}),
        package(**{"[Content_Types].xml": "<a/>", "word/document.xml": b"\xff\xfe"}),
    ],
)
def test_what_is_no_word_document_fails_by_name(tmp_path: Path, data: bytes) -> None:
    assert failure(tmp_path, data).startswith("It is no Word document that can be read")


def test_an_old_or_encrypted_document_says_what_to_do(tmp_path: Path) -> None:
    assert failure(tmp_path, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)) == (
        "It is encrypted, or an old .doc; save it as .docx without a password."
    )


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    assert "split it" in failure(tmp_path, package(**{"word/document.xml": bytes(80 << 20)}))


FORMATS = "http://schemas.openxmlformats.org"
WORDS = f'xmlns:w="{FORMATS}/wordprocessingml/2006/main"'


def relation(kind: str, target: str) -> str:
    return (
        f'<Relationships xmlns="{FORMATS}/package/2006/relationships"><Relationship Id="r1" '
        f'Type="{FORMATS}/officeDocument/2006/relationships/{kind}" Target="{target}"/></Relationships>'
    )


WITH_A_NOTE = {
    "_rels/.rels": relation("officeDocument", "word/document.xml"),
    "word/_rels/document.xml.rels": relation("footnotes", "footnotes.xml"),
    "word/document.xml": f"<w:document {WORDS}><w:body><w:p><w:r><w:t>Built in 1962</w:t></w:r><w:r>"
    '<w:footnoteReference w:id="2"/></w:r></w:p><w:sdt><w:sdtContent><w:p><w:r><w:t>In a box.</w:t></w:r>'
    "</w:p></w:sdtContent></w:sdt></w:body></w:document>",
    "word/footnotes.xml": f'<w:footnotes {WORDS}><w:footnote w:id="2"><w:p><w:r><w:t>Says the yard.</w:t>'
    "</w:r></w:p></w:footnote></w:footnotes>",
}


def test_notes_follow_at_the_end_and_content_controls_are_read(tmp_path: Path) -> None:
    assert load(tmp_path, package(**WITH_A_NOTE)).text == "Built in 1962[1]\n\nIn a box.\n\n1. Says the yard."


LAUGHS = "".join(
    f'<!ENTITY l{n} "{"&l" + str(n - 1) + ";" if n else "ha"}{("&l" + str(n - 1) + ";") * 9 if n else ""}">'
    for n in range(12)
)


@pytest.mark.parametrize("entities", [LAUGHS, '<!ENTITY l11 SYSTEM "file://{folder}/secret.txt">'])
@pytest.mark.parametrize("part", ["word/document.xml", "docProps/core.xml"])
def test_no_entity_is_expanded_or_fetched(tmp_path: Path, entities: str, part: str) -> None:
    (tmp_path / "secret.txt").write_text("the secret")
    changed = io.BytesIO(word_file(report))
    with zipfile.ZipFile(changed) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    root, _, rest = parts[part].decode().partition("?>")[2].lstrip().partition(">")
    start = f"<!DOCTYPE x [{entities.format(folder=tmp_path)}]>"
    text = rest.replace("1962", "1962 &l11;").replace("Ann", "Ann &l11;")
    parts[part] = f"{start}{root}>{text}".encode()
    item = read(tmp_path, package(**parts))
    assert isinstance(item, Outcome) or len(item.text) + len(str(item.metadata)) < 1000
    assert "secret" not in str(item)

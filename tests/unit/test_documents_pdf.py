"""PDF files that the tests draw: reading order, headings, tables, pages, and what can't be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from mrag.documents.loaders import read_input
from mrag.documents.pdf import iso_date
from mrag.documents.units import split_units
from mrag.schema import Document, Outcome, Status
from tests.document_files import (
    LEFT,
    PITCH,
    TOP,
    draw_lines,
    draw_statement,
    drawn_pdf,
    ruled_table,
    story_pdf,
)
from tests.unit.test_units import WordTokenizer

PROSE = [
    "The ferry was built in 1962 at the yard in Holm and sails from",
    "April to October. It carries ninety passengers and no cars.",
]


def read(folder: Path, data: bytes) -> Document | Outcome:
    (folder / "a.pdf").write_bytes(data)
    [item] = read_input(folder, folder / "a.pdf")
    return item


def load(folder: Path, data: bytes) -> Document:
    item = read(folder, data)
    assert isinstance(item, Document), item
    return item


def headings(document: Document) -> list[tuple[int, str]]:
    return [(each.level, document.text[each.start : each.end]) for each in document.headings]


# --------------------------------------------------------------------------- text


def test_lines_become_paragraphs_under_headings_with_their_pages(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        story_pdf("# Ferries", "## Alma", " ".join(PROSE), "It was rebuilt.", "", "## Holm", "A town."),
    )
    assert found.text == "\n\n".join(
        ["Ferries", "Alma", " ".join(PROSE), "It was rebuilt.", "Holm", "A town."]
    )
    assert headings(found) == [(1, "Ferries"), (2, "Alma"), (2, "Holm")]
    units = split_units(found, WordTokenizer(), 100)
    assert [(unit.page, unit.section) for unit in units] == [
        (1, ("Ferries", "Alma")),
        (1, ("Ferries", "Alma")),
        (2, ("Ferries", "Holm")),
    ]


def test_two_columns_of_prose_are_read_one_after_the_other(tmp_path: Path) -> None:
    left = [f"left line {number} of the first column" for number in range(12)]
    right = [f"right line {number} of the second one" for number in range(12)]

    def draw(sheet: Canvas) -> None:
        draw_lines(sheet, left)
        draw_lines(sheet, right, left=320)

    assert load(tmp_path, drawn_pdf(draw)).text == f"{' '.join(left)}\n\n{' '.join(right)}"


def test_a_word_broken_at_the_end_of_a_line_is_whole(tmp_path: Path) -> None:
    lines = ["This informa-", "tion is old. More information is in the year-", "end report of the year-end."]
    text = load(tmp_path, drawn_pdf(lambda sheet: draw_lines(sheet, lines))).text
    assert text == "This information is old. More information is in the year-end report of the year-end."


def test_items_of_a_list_are_lines(tmp_path: Path) -> None:
    def draw(sheet: Canvas) -> None:
        for number, item in enumerate(["one thing", "another thing"]):
            sheet.drawString(LEFT, TOP - number * PITCH, "•")
            sheet.drawString(LEFT + 18, TOP - number * PITCH, item)

    assert load(tmp_path, drawn_pdf(draw)).text == "• one thing\n• another thing"


def test_a_page_that_is_turned_reads_like_any_other(tmp_path: Path) -> None:
    def draw(sheet: Canvas) -> None:
        sheet.rotate(90)
        draw_lines(sheet, PROSE, left=100, top=-100)

    assert load(tmp_path, drawn_pdf(draw)).text == " ".join(PROSE)


def test_text_across_the_page_is_kept(tmp_path: Path) -> None:
    def draw(sheet: Canvas) -> None:
        draw_lines(sheet, PROSE)
        sheet.rotate(90)
        sheet.drawString(200, -40, "Draft of May")

    assert load(tmp_path, drawn_pdf(draw)).text == " ".join(PROSE) + "\n\nDraft of May"


def test_page_numbers_are_left_out_and_running_titles_read_once(tmp_path: Path) -> None:
    def page(number: int) -> Callable[[Canvas], None]:
        def draw(sheet: Canvas) -> None:
            sheet.drawString(LEFT, 810, "Annual report")
            draw_lines(
                sheet, [f"What {number} pages say about {word}." for word in ("boats", "oars", "nets")]
            )
            sheet.drawCentredString(300, 30, f"- {number} -")

        return draw

    text = load(tmp_path, drawn_pdf(*map(page, range(1, 7)))).text
    assert text.count("Annual report") == 1
    assert "- 3 -" not in text
    assert all(f"What {number} pages say about nets." in text for number in range(1, 7))


def test_numbers_that_differ_from_page_to_page_are_no_page_numbers(tmp_path: Path) -> None:
    def bill(number: int) -> Callable[[Canvas], None]:
        return lambda sheet: draw_lines(sheet, [f"Bill {number}", "for oars", "and nets", "and", "ropes"])

    text = load(tmp_path, drawn_pdf(*map(bill, (417, 512, 623, 811)))).text
    assert all(f"Bill {number}" in text for number in (417, 512, 623, 811))


# --------------------------------------------------------------------------- tables


def test_a_table_without_rules_keeps_row_and_year(tmp_path: Path) -> None:
    rows = {
        "Net sales": ["$14,694", "$14,544", "$12,861"],
        "Cost of sales": ["(11,969)", "(11,724)", "(10,129)"],
        "Equity in income": ["—", "—", "19"],
        "Net income": ["$1,058", "$815", "$951"],
    }
    page = drawn_pdf(lambda sheet: draw_statement(sheet, ["2023", "2022", "2021"], rows))
    assert load(tmp_path, page).text.split("\n") == [
        "| 2023 | 2022 | 2021",
        "| Net sales | 2023: $14,694 | 2022: $14,544 | 2021: $12,861",
        "| Cost of sales | 2023: (11,969) | 2022: (11,724) | 2021: (10,129)",
        "| Equity in income | 2023: — | 2022: — | 2021: 19",
        "| Net income | 2023: $1,058 | 2022: $815 | 2021: $951",
    ]


def test_an_empty_cell_moves_no_figure(tmp_path: Path) -> None:
    rows = {"One": ["1", "", "3"], "Two": ["", "5", ""], "Three": ["7", "8", "9"], "Four": ["", "", "12"]}
    page = drawn_pdf(lambda sheet: draw_statement(sheet, ["2023", "2022", "2021"], rows))
    assert load(tmp_path, page).text.split("\n")[1:] == [
        "| One | 2023: 1 | 2021: 3",
        "| Two | 2022: 5",
        "| Three | 2023: 7 | 2022: 8 | 2021: 9",
        "| Four | 2021: 12",
    ]


def test_heads_of_several_columns_and_lines(tmp_path: Path) -> None:
    def draw(sheet: Canvas) -> None:
        sheet.drawCentredString(405, TOP + 2 * PITCH, "Weeks ended")
        for right in (380, 470):
            sheet.drawCentredString(right - 20, TOP + PITCH, "January 28,")
        draw_statement(sheet, ["2023", "2022"], {"Cash": ["737,877", "431,560"], "Debt": ["5", "6"]})

    assert load(tmp_path, drawn_pdf(draw)).text.split("\n")[-2:] == [
        "| Cash | Weeks ended January 28, 2023: 737,877 | Weeks ended January 28, 2022: 431,560",
        "| Debt | Weeks ended January 28, 2023: 5 | Weeks ended January 28, 2022: 6",
    ]


def test_a_row_head_of_two_lines_and_a_group(tmp_path: Path) -> None:
    rows = {
        "Investing activities": [],
        "Additions to property, net of what was": [],
        "paid in kind": ["(930)", "(737)"],
        "Sales": ["7", "66"],
    }
    page = drawn_pdf(lambda sheet: draw_statement(sheet, ["2023", "2022"], rows))
    assert load(tmp_path, page).text.split("\n")[1:] == [
        "| Investing activities",
        "| Additions to property, net of what was paid in kind | 2023: (930) | 2022: (737)",
        "| Sales | 2023: 7 | 2022: 66",
    ]


def test_a_table_drawn_column_by_column(tmp_path: Path) -> None:
    names = ["Net sales", "Cost of sales", "Gross profit", "Wages", "Rent", "Taxes", "Net income", "Interest"]

    def draw(sheet: Canvas) -> None:
        draw_lines(sheet, names, top=TOP - PITCH)
        for place, year in ((380, 2023), (470, 2022)):
            sheet.drawRightString(place, TOP, str(year))
            for number in range(1, len(names) + 1):
                sheet.drawRightString(place, TOP - number * PITCH, f"{year - 2000}{number}")

    lines = load(tmp_path, drawn_pdf(draw)).text.split("\n")
    assert lines[1:] == [
        f"| {name} | 2023: 23{number} | 2022: 22{number}" for number, name in enumerate(names, start=1)
    ]


def test_cells_of_several_lines_in_a_ruled_table(tmp_path: Path) -> None:
    rows = [
        ["Name", "What it is", "Year"],
        ["Alma", "A ferry of oak that sails between Holm and Visby and back", "1962"],
        ["The Saltfinch of the north", "A boat", "1988"],
    ]
    lines = load(tmp_path, story_pdf(ruled_table(rows, [90, 130, 60]))).text.split("\n")
    assert lines == [
        "| Name | What it is | Year",
        "| Alma | What it is: A ferry of oak that sails between Holm and Visby and back | Year: 1962",
        "| The Saltfinch of the north | What it is: A boat | Year: 1988",
    ]


def test_two_tables_on_a_page_have_heads_of_their_own(tmp_path: Path) -> None:
    def draw(sheet: Canvas) -> None:
        draw_statement(sheet, ["2023", "2022"], {"Cash": ["1", "2"], "Debt": ["3", "4"]})
        sheet.drawString(LEFT, TOP - 5 * PITCH, "Sales by quarter")
        draw_statement(
            sheet,
            ["Q1", "Q2", "Q3"],
            {"Boats": ["5", "6", "7"], "Oars": ["8", "9", "10"]},
            rights=(300, 420, 540),
            top=TOP - 6 * PITCH,
        )

    assert load(tmp_path, drawn_pdf(draw)).text.split("\n\n") == [
        "| 2023 | 2022\n| Cash | 2023: 1 | 2022: 2\n| Debt | 2023: 3 | 2022: 4",
        "Sales by quarter",
        "| Q1 | Q2 | Q3\n| Boats | Q1: 5 | Q2: 6 | Q3: 7\n| Oars | Q1: 8 | Q2: 9 | Q3: 10",
    ]


def test_stacked_tables_keep_their_own_years(tmp_path: Path) -> None:
    def draw(sheet: Canvas) -> None:
        for number, year in enumerate(("2023", "2022", "2021")):
            top = TOP - number * 6 * PITCH
            sheet.drawCentredString(450, top, f"Year ended June 30, {year}")
            rows = {"North": ["1", "2", "3"], "South": ["4", "5", "9"]}
            draw_statement(sheet, ["Boats", "Oars", "Total"], rows, top=top - PITCH)

    lines = load(tmp_path, drawn_pdf(draw)).text.split("\n")
    north = [line for line in lines if line.startswith("| North")]
    assert north == [
        "| North | "
        + " | ".join(f"Year ended June 30, {year} {name}" for name in ("Boats: 1", "Oars: 2", "Total: 3"))
        for year in ("2023", "2022", "2021")
    ]


def test_a_head_stands_over_all_that_its_rule_does(tmp_path: Path) -> None:
    def draw(sheet: Canvas) -> None:
        sheet.drawString(LEFT, TOP - PITCH, "Product")
        sheet.drawString(200, TOP - PITCH, "Segment")
        sheet.drawCentredString(430, TOP, "Years ended")
        sheet.line(325, TOP - 3, 555, TOP - 3)
        rows = {"Films": ["10,061", "10,033", "8,934"], "Cartons": ["1,093", "1,118", "1,104"]}
        draw_statement(sheet, ["2023", "2022", "2021"], rows, top=TOP - PITCH)
        for number, segment in enumerate(("Flexibles", "Rigid"), start=2):
            sheet.drawString(200, TOP - number * PITCH, segment)

    assert load(tmp_path, drawn_pdf(draw)).text.split("\n")[-1] == (
        "| Cartons | Segment: Rigid"
        " | Years ended 2023: 1,093 | Years ended 2022: 1,118 | Years ended 2021: 1,104"
    )


def test_a_rule_below_several_heads_joins_none_of_them(tmp_path: Path) -> None:
    def draw(sheet: Canvas) -> None:
        draw_statement(sheet, ["2023", "2022"], {"Cash": ["1", "2"], "Debt": ["3", "4"]})
        sheet.line(320, TOP - 3, 480, TOP - 3)

    assert load(tmp_path, drawn_pdf(draw)).text.split("\n")[1] == "| Cash | 2023: 1 | 2022: 2"


def test_a_line_of_one_columns_head_is_no_head_of_its_neighbours(tmp_path: Path) -> None:
    def draw(sheet: Canvas) -> None:
        sheet.drawCentredString(450, TOP + PITCH, "Rigid")
        draw_statement(
            sheet, ["Flexibles", "Packaging", "Total"], {"North": ["1", "2", "3"], "South": ["4", "5", "9"]}
        )

    assert load(tmp_path, drawn_pdf(draw)).text.split("\n")[-1] == (
        "| South | Flexibles: 4 | Rigid Packaging: 5 | Total: 9"
    )


def test_figures_a_little_below_their_row_head_belong_to_it(tmp_path: Path) -> None:
    def draw(sheet: Canvas) -> None:
        draw_statement(sheet, ["2023", "2022"], {"Sales": ["1", "2"], "": [], "Costs": ["5", "6"]})
        sheet.drawString(LEFT, TOP - 2 * PITCH + 4, "Translation of currencies")
        for right, figure in ((380, "3"), (470, "4")):
            sheet.drawRightString(right, TOP - 2 * PITCH - 3, figure)

    assert load(tmp_path, drawn_pdf(draw)).text.split("\n")[2] == (
        "| Translation of currencies | 2023: 3 | 2022: 4"
    )


def test_a_row_of_words_between_numbered_ones_is_no_head(tmp_path: Path) -> None:
    entries = [
        ("21", ".1", "Subsidiaries"),
        ("22", "", "Guarantors"),
        ("23", "", "Consent"),
        ("31", ".1", "Oaths"),
    ]

    def draw(sheet: Canvas) -> None:
        for number, (whole, part, text) in enumerate(entries):
            for left, words in ((LEFT, whole), (LEFT + 24, part), (200, text), (450, "Filed")):
                sheet.drawString(left, TOP - number * PITCH, words)

    assert load(tmp_path, drawn_pdf(draw)).text.split("\n") == [
        "| " + " | ".join(filter(None, (*entry, "Filed"))) for entry in entries
    ]


def test_prose_around_a_table_is_no_row_of_it(tmp_path: Path) -> None:
    def draw(sheet: Canvas) -> None:
        draw_lines(sheet, PROSE)
        draw_statement(sheet, ["2023", "2022"], {"Cash": ["1", "2"], "Debt": ["3", "4"]}, top=TOP - 3 * PITCH)
        draw_lines(sheet, PROSE, top=TOP - 7 * PITCH)

    before, table, after = load(tmp_path, drawn_pdf(draw)).text.split("\n\n")
    assert before == after == " ".join(PROSE)
    assert table.count("\n") == 2


# --------------------------------------------------------------------------- metadata and refusals


def test_metadata(tmp_path: Path) -> None:
    about = load(tmp_path, story_pdf("x", title="On  ferries", author="Ann")).metadata
    assert load(tmp_path, story_pdf("x", title="On ferries")).title == "On ferries"
    assert {**about, "date": about["date"][:2], "modified": about["modified"][:2]} == {
        "path": "a.pdf",
        "format": "pdf",
        "pages": 1,
        "author": "Ann",
        "date": "20",
        "modified": "20",
    }
    assert load(tmp_path, story_pdf("x", title="report.docx")).title == "A"


@pytest.mark.parametrize(
    ("given", "date"),
    [
        ("D:20230817105302+00'00'", "2023-08-17T10:53:02+00:00"),
        ("D:20230817105302-05'30'", "2023-08-17T10:53:02-05:30"),
        ("D:202308171053Z", "2023-08-17T10:53:00+00:00"),
        ("D:20230817", "2023-08-17"),
        ("D:2023", "2023-01-01"),
        ("D:20231399", ""),
        ("yesterday", ""),
        ("", ""),
    ],
)
def test_dates(given: str, date: str) -> None:
    assert iso_date(given) == date


def test_an_encrypted_file_fails_and_one_that_only_forbids_printing_does_not(tmp_path: Path) -> None:
    def draw(sheet: Canvas) -> None:
        draw_lines(sheet, PROSE)

    shut = read(tmp_path, drawn_pdf(draw, encrypt=StandardEncryption("secret")))
    assert shut == Outcome("a.pdf", Status.FAILED, "It is encrypted; save it without a password.")
    open_to_read = StandardEncryption("", ownerPassword="secret", canPrint=0)
    assert load(tmp_path, drawn_pdf(draw, encrypt=open_to_read)).text == " ".join(PROSE)


def test_pictures_without_text_are_unsupported_and_empty_pages_empty(tmp_path: Path) -> None:
    Image.new("RGB", (20, 20), "red").save(tmp_path / "scan.png")

    def picture(sheet: Canvas) -> None:
        sheet.drawImage(str(tmp_path / "scan.png"), 100, 100)

    scan = read(tmp_path, drawn_pdf(picture))
    assert isinstance(scan, Outcome)
    assert (scan.status, "OCR" in scan.detail) == (Status.UNSUPPORTED, True)
    both = load(tmp_path, drawn_pdf(picture, lambda sheet: draw_lines(sheet, PROSE)))
    assert (both.text, both.metadata["pages_without_text"]) == (" ".join(PROSE), [1])
    assert load(tmp_path, drawn_pdf(lambda sheet: None)).text == ""


def test_a_page_of_absurdly_many_letters_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrag.documents.pages.glyphs.MAX_PAGE_GLYPHS", 50)
    item = read(tmp_path, drawn_pdf(lambda sheet: draw_lines(sheet, PROSE)))
    assert isinstance(item, Outcome)
    assert (item.status, "split it" in item.detail) == (Status.FAILED, True)

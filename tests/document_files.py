"""Files of the formats that only a library writes, small enough to check by eye."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import docx
from docx.document import Document as Word
from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Flowable, PageBreak, Paragraph, SimpleDocTemplate, Table, TableStyle

STYLES = getSampleStyleSheet()
LEFT, TOP, PITCH = 60, 780, 14


def story_pdf(*story: Flowable | str, **about: Any) -> bytes:
    """A report: `# ...` is a title, `## ...` a heading, "" a page break, other text a paragraph."""
    out = io.BytesIO()
    SimpleDocTemplate(out, pagesize=A4, **about).build([_flowable(part) for part in story])
    return out.getvalue()


def _flowable(part: Flowable | str) -> Flowable:
    if not isinstance(part, str):
        return part
    if not part:
        return PageBreak()
    style = {"#": "Title", "##": "Heading2"}.get(part.split()[0], "BodyText")
    return Paragraph(part.lstrip("# "), STYLES[style])


def ruled_table(rows: Sequence[Sequence[str]], widths: Sequence[float], **spans: Any) -> Table:
    """A table in boxes; long texts wrap within their cells."""
    cells = [[Paragraph(cell, STYLES["BodyText"]) for cell in row] for row in rows]
    boxes = TableStyle([("GRID", (0, 0), (-1, -1), 0.5, colors.black), ("VALIGN", (0, 0), (-1, -1), "TOP")])
    return Table(cells, colWidths=widths, style=boxes, **spans)


def drawn_pdf(*pages: Callable[[Canvas], None], **canvas: Any) -> bytes:
    """One page for each function, which draws it."""
    out = io.BytesIO()
    sheet = Canvas(out, pagesize=A4, invariant=True, **canvas)
    for draw in pages:
        draw(sheet)
        sheet.showPage()
    sheet.save()
    return out.getvalue()


def draw_lines(sheet: Canvas, lines: Sequence[str], left: float = LEFT, top: float = TOP) -> None:
    """Lines of a paragraph, as one would type them."""
    for number, line in enumerate(lines):
        sheet.drawString(left, top - number * PITCH, line)


def draw_statement(
    sheet: Canvas,
    heads: Sequence[str],
    rows: Mapping[str, Sequence[str]],
    rights: Sequence[float] = (380, 470, 550),
    top: float = TOP,
) -> None:
    """A table without rules, as in annual reports: heads centred, figures flush right, `$` to the left."""
    for head, right in zip(heads, rights, strict=False):
        sheet.drawCentredString(right - 20, top, head)
    for number, (name, figures) in enumerate(rows.items(), start=1):
        sheet.drawString(LEFT, top - number * PITCH, name)
        for figure, right in zip(figures, rights, strict=False):
            sheet.drawRightString(right, top - number * PITCH, figure.removeprefix("$"))
            if figure.startswith("$"):
                sheet.drawString(right - 60, top - number * PITCH, "$")


def word_file(write: Callable[[Word], None]) -> bytes:
    """A Word document that the function fills."""
    word = docx.Document()
    write(word)
    out = io.BytesIO()
    word.save(out)
    return out.getvalue()

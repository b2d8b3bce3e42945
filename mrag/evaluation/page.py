"""A report as one HTML page: nothing is fetched, nothing runs, and text is only ever text.

The page is built as a tree, so that every id, title and key is escaped where it is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, tostring

from mrag.evaluation.plots import svg
from mrag.evaluation.sections import Section

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
STYLE = """
:root { color-scheme: light dark;
        --ink: #1c1c1a; --dim: #5d5c57; --line: #dddbd3; --paper: #fcfcfa; --bar: #2a6fb0; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ecebe6; --dim: #a3a29b; --line: #3b3a37; --paper: #1a1a19; --bar: #5b9fe0; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
       max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin: 2.5rem 0 0; font-size: 1.15rem; }
p { margin: .2rem 0 .8rem; color: var(--dim); }
table { border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: .25rem 1.2rem .25rem 0;
         border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
th { font-weight: 600; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
figure { margin: 1rem 0; max-width: 40rem; }
figcaption { color: var(--dim); }
svg { width: 100%; height: auto; font: 12px system-ui, sans-serif; }
svg text { fill: var(--dim); }
.bar { fill: var(--bar); }
.grid { stroke: var(--line); }
.axis { stroke: var(--dim); }
"""


def page(title: str, sections: Sequence[Section]) -> str:
    """The whole document as text, to be written as UTF-8."""
    html = Element("html", {"lang": "en"})
    head, body = SubElement(html, "head"), SubElement(html, "body")
    SubElement(head, "meta", {"charset": "utf-8"})
    SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": POLICY})
    SubElement(head, "meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"})
    SubElement(head, "title").text = title
    SubElement(head, "style").text = STYLE
    SubElement(body, "h1").text = title
    for section in sections:
        _section(body, section)
    return "<!DOCTYPE html>\n" + tostring(html, encoding="unicode", method="html") + "\n"


def _section(body: Element, section: Section) -> None:
    SubElement(body, "h2").text = section.title
    SubElement(body, "p").text = section.about
    table = SubElement(body, "table")
    if any(section.head):
        _row(SubElement(table, "thead"), "th", section.head, section.numeric)
    rows = SubElement(table, "tbody")
    for row in section.rows:
        _row(rows, "td", row, section.numeric)
    for plot in section.plots:
        figure = SubElement(body, "figure")
        figure.append(svg(plot))
        SubElement(figure, "figcaption").text = plot.caption


def _row(parent: Element, kind: str, cells: Sequence[str], numeric: Sequence[bool]) -> None:
    row = SubElement(parent, "tr")
    for cell, is_number in zip(cells, numeric, strict=True):
        SubElement(row, kind, {"class": "number"} if is_number else {}).text = cell

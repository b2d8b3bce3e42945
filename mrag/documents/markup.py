"""An HTML tree as blocks of text: paragraphs, headings, lists and tables, without what only steers a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from lxml import etree
from lxml.html import HtmlElement, HTMLParser, document_fromstring

from mrag.documents.composing import Composer
from mrag.documents.tables import Cell, Row, table_text
from mrag.errors import DocumentError

_LEVELS = {f"h{level}": level for level in range(1, 7)}


def _tags(*lines: str) -> frozenset[str]:
    return frozenset(tag for line in lines for tag in line.split())


_BLOCKS = _tags(
    "address article aside blockquote body caption center dd details dialog div dl dt fieldset figcaption",
    "figure footer form header hgroup hr html legend main menu nav ol p pre search section summary table",
    "tbody td tfoot th thead tr ul",
)
_LINES = _tags("li dt dd")
_LISTS = _tags("ul ol menu")
_LEFT_OUT = _tags(
    "audio base button canvas datalist embed head iframe input link map meta nav noscript object script",
    "select style svg template textarea title video",
)
_HIDDEN = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_MOST_SPANNED = 1000
_LONGEST_REPEATED = 200
_DEEPEST_INDENT = 8


def parse(markup: str) -> HtmlElement | None:
    """The tree of a page, however broken; None for one without any element or text.

    No entity, style sheet or frame is fetched. Raises DocumentError for a page that is nested too deeply.
    """
    parser = HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        tree = document_fromstring(markup.encode(), parser=parser)
    except etree.ParserError:
        return None
    if any(entry.level == etree.ErrorLevels.FATAL for entry in parser.error_log):
        raise DocumentError("Its elements are nested too deeply; save it in another form.")
    return tree


def compose(tree: HtmlElement, composer: Composer) -> None:
    """Adds all blocks of the tree."""
    _Walk(composer).through(tree)


def flat_text(element: HtmlElement) -> str:
    """All visible text of an element on one line."""
    inner = Composer()
    _Walk(inner, with_tables=False).through(element)
    return " ".join(inner.text().split())


# --------------------------------------------------------------------------- blocks


class _Walk:
    """One pass through a tree, without recursion: text gathers in lines, lines in blocks."""

    def __init__(self, composer: Composer, with_tables: bool = True) -> None:
        self._composer = composer
        self._with_tables = with_tables
        self._line: list[str] = []
        self._block: list[str] = []
        self._bullet = ""
        self._lists: list[int] = []
        self._verbatim = 0

    def through(self, root: HtmlElement) -> None:
        """Adds the blocks of `root`, its tail apart."""
        steps = etree.iterwalk(root, events=("start", "end"))
        skipped = False
        for event, element in steps:
            if event == "start" and self._enters(element):
                self._start(element)
                self._text(element.text)
            elif event == "start":
                steps.skip_subtree()
                skipped = True
            else:
                if not skipped:
                    self._end(element)
                skipped = False
                if element is not root:
                    self._text(element.tail)
        self._end_block()

    def _enters(self, element: HtmlElement) -> bool:
        """False for what is left out, and for a table of data, which is read here as a whole."""
        if element.tag in _LEFT_OUT or _is_hidden(element):
            if element.tag in _BLOCKS:
                self._end_part()
            return False
        if element.tag == "table" and self._with_tables and (rows := data_rows(element)):
            self._end_block()
            self._composer.block(table_text(rows))
            return False
        return True

    def _start(self, element: HtmlElement) -> None:
        tag = element.tag
        if tag in _LEVELS:
            self._end_block()
        elif tag in _LINES:
            self._end_line()
        elif tag in _BLOCKS:
            self._end_part()
        if tag in _LISTS:
            self._lists.append(0)
        elif tag == "li":
            self._bullet = self._next_bullet(element)
        elif tag == "pre":
            self._verbatim += 1
        elif tag == "br":
            self._break()
        elif tag == "img":
            self._text(element.get("alt"))

    def _end(self, element: HtmlElement) -> None:
        tag = element.tag
        if tag in _LEVELS:
            self._composer.heading(self._taken(), _LEVELS[tag])
        elif tag in _LINES:
            self._end_line()
            self._bullet = ""
        elif tag in _BLOCKS:
            if tag in _LISTS:
                self._lists.pop()
            self._verbatim -= tag == "pre"
            self._end_part()

    def _next_bullet(self, element: HtmlElement) -> str:
        if not self._lists:
            return "- "
        self._lists[-1] += 1
        indent = "  " * min(len(self._lists) - 1, _DEEPEST_INDENT)
        parent = element.getparent()
        is_numbered = parent is not None and parent.tag == "ol"
        return indent + (f"{self._lists[-1]}. " if is_numbered else "- ")

    def _text(self, text: str | None) -> None:
        if not text:
            return
        if self._verbatim:
            first, *others = text.split("\n")
            self._line.append(first)
            for line in others:
                self._end_line(keep_empty=True)
                self._line.append(line)
            return
        words = re.sub(r"\s+", " ", text)
        if words.startswith(" ") and (not self._line or self._line[-1].endswith(" ")):
            words = words[1:]
        if words:
            self._line.append(words)

    def _break(self) -> None:
        """A second line break in a row ends the block."""
        self._end_line() if self._line or self._lists else self._end_block()

    def _end_part(self) -> None:
        """The end of a block, or of a line only where the block stands in a list."""
        self._end_line() if self._lists else self._end_block()

    def _end_line(self, keep_empty: bool = False) -> None:
        line = "".join(self._line).rstrip()
        self._line = []
        if line or keep_empty:
            self._block.append(self._bullet + line)
            self._bullet = ""

    def _end_block(self) -> None:
        self._composer.block(self._taken())

    def _taken(self) -> str:
        self._end_line()
        text = "\n".join(self._block)
        self._block = []
        return text


def _is_hidden(element: HtmlElement) -> bool:
    return (
        element.get("hidden") is not None
        or element.get("aria-hidden") == "true"
        or element.get("role") == "navigation"
        or bool(_HIDDEN.search(element.get("style") or ""))
    )


# --------------------------------------------------------------------------- tables


def data_rows(table: HtmlElement) -> list[Row]:
    """The rows of a table of data; none for one that only lays out a page.

    A cell that spans rows stands in each of them, unless it is long. Layout is what holds another table or
    headings, says so, or has no two rows and two columns.
    """
    if table.get("role") in ("presentation", "none") or _has(table, "table", *_LEVELS):
        return []
    rows = list(_rows(table))
    wide = any(row.cells and row.cells[-1].column > 0 for row in rows)
    return rows if wide and sum(bool(row.cells) for row in rows) > 1 else []


def _has(table: HtmlElement, *tags: str) -> bool:
    return next(table.iterdescendants(*tags), None) is not None


def _rows(table: HtmlElement) -> Iterator[Row]:
    """Rows with their cells in columns; what spans rows is kept in `below` until it ends."""
    below: dict[int, tuple[int, Cell]] = {}
    caption = next(table.iterchildren("caption"), None)
    if caption is not None:
        yield _row([Cell(0, flat_text(caption))], False)
    for element in table.iterdescendants("tr"):
        if not _is_hidden(element):
            cells, below = _placed(element, below)
            yield _row(cells, _is_head(element))


def _row(cells: Iterable[Cell], is_head: bool) -> Row:
    filled = (cell for cell in cells if cell.text)
    return Row(tuple(sorted(filled, key=lambda cell: cell.column)), is_head)


def _placed(
    row: HtmlElement, above: dict[int, tuple[int, Cell]]
) -> tuple[list[Cell], dict[int, tuple[int, Cell]]]:
    """The cells of a row, those from above among them, and what reaches into the rows below."""
    cells = [cell for _, cell in above.values()]
    taken = {column for cell in cells for column in range(cell.column, cell.end)}
    below = {column: (left - 1, cell) for column, (left, cell) in above.items() if left > 1}
    column = 0
    for element in row.iterchildren("td", "th"):
        while column in taken:
            column += 1
        cell = Cell(column, flat_text(element), _span(element, "colspan"))
        if (rows := _span(element, "rowspan")) > 1 and len(cell.text) <= _LONGEST_REPEATED:
            below[column] = (rows - 1, cell)
        cells.append(cell)
        column = cell.end
    return cells, below


def _span(element: HtmlElement, name: str) -> int:
    value = (element.get(name) or "").strip()
    return min(max(int(value), 1), _MOST_SPANNED) if value.isascii() and value.isdigit() else 1


def _is_head(row: HtmlElement) -> bool:
    parent = row.getparent()
    if parent is not None and parent.tag == "thead":
        return True
    tags = {cell.tag for cell in row.iterchildren("td", "th")}
    return tags == {"th"}

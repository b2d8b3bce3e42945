"""HTML pages: what is kept, what is left out, where headings stand, how tables read."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrag.documents.loaders import read_input
from mrag.schema import Document, Outcome, Status


def load(folder: Path, page: str | bytes, name: str = "a.html") -> Document:
    path = folder / name
    path.write_bytes(page if isinstance(page, bytes) else page.encode())
    [item] = read_input(folder, path)
    assert isinstance(item, Document), item
    return item


def text(folder: Path, page: str) -> str:
    return load(folder, page).text


def test_blocks_are_paragraphs_and_inline_elements_are_not(tmp_path: Path) -> None:
    page = "<p>One <b>bo</b>ld\n  word.<p>Two<br>lines<div>three<section>four</section>five</div>six"
    assert text(tmp_path, page) == "One bold word.\n\nTwo\nlines\n\nthree\n\nfour\n\nfive\n\nsix"


def test_two_line_breaks_are_the_end_of_a_paragraph(tmp_path: Path) -> None:
    assert text(tmp_path, "one<br><br>two<br/>three") == "one\n\ntwo\nthree"


def test_what_steers_the_page_is_left_out_and_what_follows_it_is_not(tmp_path: Path) -> None:
    page = (
        "<head><title>t</title><style>.x{}</style></head><body><nav><ul><li>Home</ul></nav>a"
        "<script>if (1 < 2) {}</script>b<!-- no -->c<noscript>no</noscript><template>no</template>d"
        "<div hidden>no</div>e<span style='display: none'>no</span>f<div role=navigation>no</div>g"
        "<select><option>no</select><button>no</button><svg><text>no</text></svg>h<p aria-hidden=true>no"
    )
    assert text(tmp_path, page).split() == ["abcd", "ef", "gh"]


def test_headings_have_offsets_and_the_first_of_level_1_is_the_title(tmp_path: Path) -> None:
    page = "<title>Site</title><h2>Before</h2><h1>The <i>main</i>\n thing</h1><p>x<h3> </h3><h6>Deep</h6>y"
    found = load(tmp_path, page)
    assert found.title == "The main thing"
    assert [(each.level, each.text, found.text[each.start : each.end]) for each in found.headings] == [
        (2, "Before", "Before"),
        (1, "The main thing", "The main thing"),
        (6, "Deep", "Deep"),
    ]


def test_a_title_without_a_heading_is_that_of_the_page_or_of_the_file(tmp_path: Path) -> None:
    assert load(tmp_path, "<title> Big\n page </title><h2>x</h2>").title == "Big page"
    assert load(tmp_path, "<p>x", "price-list.htm").title == "Price list"


def test_metadata_of_the_head(tmp_path: Path) -> None:
    page = (
        "<html lang=en-GB><meta name=Author content=' Ann  B '><meta property='article:published_time'"
        " content='2024-03-01'><meta name=dcterms.modified content=2024-04-01><meta name=author content=no>x"
    )
    assert load(tmp_path, page).metadata == {
        "path": "a.html",
        "format": "html",
        "author": "Ann B",
        "date": "2024-03-01",
        "modified": "2024-04-01",
        "language": "en-GB",
    }


def test_lists_are_lines_of_one_block(tmp_path: Path) -> None:
    page = "<p>x<ul><li>one<li><p>two</p><p>more</p><ol><li>deep<li>deeper</ol><li></ul><dl><dt>T<dd>D</dl>"
    assert text(tmp_path, page) == "x\n\n- one\n- two\nmore\n  1. deep\n  2. deeper\n\nT\nD"


def test_preformatted_text_keeps_its_lines(tmp_path: Path) -> None:
    assert text(tmp_path, "<pre>a\n  b\n\nc</pre>d") == "a\n  b\n\nc\n\nd"


def test_a_cell_keeps_its_heads_over_spans(tmp_path: Path) -> None:
    page = (
        "<table><caption>Sales</caption><thead><tr><th><th colspan=2>2023<th>2022</tr>"
        "<tr><th><th>Q1<th>Q2<th>Q1</tr></thead>"
        "<tr><td rowspan=2>EU<td>1<td>2<td>3<tr><td>4<td colspan=2>none<tr><td>US<td>$</td><td>5<td>6</table>"
    )
    assert text(tmp_path, page).split("\n") == [
        "| Sales",
        "| 2023 | 2022",
        "| Q1 | Q2 | Q1",
        "| EU | 2023 Q1: 1 | 2023 Q2: 2 | 2022 Q1: 3",
        "| EU | 2023 Q1: 4 | none",
        "| US | $5 | 2022 Q1: 6",
    ]


@pytest.mark.parametrize(
    "page",
    [
        "<table><tr><td><p>one<p>two<td>three</table>",
        "<table><tr><td>one<tr><td>two<tr><td>three</table>",
        "<table role=presentation><tr><td>one<td>two<tr><td>three<td></table>",
        "<table><tr><td>one<td><table><tr><td>two<td>three</table></table>",
    ],
)
def test_a_table_that_lays_out_a_page_is_none(tmp_path: Path, page: str) -> None:
    assert text(tmp_path, page) == "one\n\ntwo\n\nthree"


@pytest.mark.parametrize(
    "page", ["", "   ", "<html></html>", "<script>x</script>", "<!-- only -->", "<p>\u200b"]
)
def test_a_page_without_text_is_a_document_without_text(tmp_path: Path, page: str) -> None:
    assert text(tmp_path, page) == ""


@pytest.mark.parametrize(
    ("declaration", "encoding"),
    [
        ("<meta charset=iso-8859-1>", "cp1252"),
        ("<meta http-equiv=content-type content='text/html; charset=windows-1251'>", "cp1251"),
        ("<meta charset=Shift_JIS>", "cp932"),
        ("<?xml version='1.0' encoding='euc-jp'?>", "euc_jp"),
        ("<meta charset=iso-2022-jp>", "iso2022_jp"),
        ("<meta charset=cp1252>", "utf-8"),
        ("<meta charset=hex>", "utf-8"),
        ("<meta charset=no-such>", "utf-16"),
    ],
)
def test_the_encoding_that_the_page_declares_unless_it_is_plainly_another(
    tmp_path: Path, declaration: str, encoding: str
) -> None:
    words = {"cp1252": "“déjà” vu", "cp1251": "Привет"}.get(encoding, "日本語の文章")
    assert load(tmp_path, f"<html>{declaration}<p>{words}</p>".encode(encoding)).text == words


def test_no_entity_is_fetched(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("the secret")
    page = f'<!DOCTYPE html [<!ENTITY x SYSTEM "file://{tmp_path}/secret.txt">]><html><p>a &x; b</p></html>'
    found = text(tmp_path, page)
    assert "secret" not in found
    assert found.startswith("a ") or "a " in found


def test_a_page_nested_absurdly_deep_is_named_and_not_cut(tmp_path: Path) -> None:
    assert text(tmp_path, "<div>" * 1000 + "deep" + "</div>" * 1000 + "after") == "deep\n\nafter"
    (tmp_path / "b.html").write_text("<div>" * 100_000 + "deep")
    [item] = read_input(tmp_path, tmp_path / "b.html")
    assert isinstance(item, Outcome)
    assert (item.status, item.detail) == (
        Status.FAILED,
        "Its elements are nested too deeply; save it in another form.",
    )


def test_a_small_page_does_not_unfold_to_a_large_text(tmp_path: Path) -> None:
    head, cells = "h" * 5000, "<td>1" * 50
    page = f"<table><tr>{('<th>' + head) * 51}" + f"<tr><td>x{cells}" * 200 + "</table>"
    assert len(text(tmp_path, page)) < 3 * len(page)
    spanned = f"<table><tr><td rowspan=1000>{'s' * 5000}<td>1" + "<tr><td>2" * 900 + "</table>"
    assert len(text(tmp_path, spanned)) < 3 * len(spanned)

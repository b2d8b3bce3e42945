"""A table as lines: which rows are heads, and which head a cell gets."""

from __future__ import annotations

import pytest

from mrag.documents.tables import Cell, Row, is_figure, table_text


def row(*texts: str, is_head: bool = False) -> Row:
    return Row(tuple(Cell(column, text) for column, text in enumerate(texts) if text), is_head)


def lines(*rows: Row) -> list[str]:
    return table_text(rows).split("\n")


def test_a_cell_keeps_the_heads_of_its_row_and_column() -> None:
    assert lines(row("As of", "2023", "2022"), row("Cash", "689", "775"), row("Debt", "", "—")) == [
        "| As of | 2023 | 2022",
        "| Cash | 2023: 689 | 2022: 775",
        "| Debt | 2022: —",
    ]


def test_heads_above_each_other_follow_each_other_and_span() -> None:
    years = Row((Cell(1, "Years ended", 2),))
    assert lines(years, row("", "June 30, 2023", "June 30, 2022"), row("Net sales", "1", "2"))[-1] == (
        "| Net sales | Years ended June 30, 2023: 1 | Years ended June 30, 2022: 2"
    )


def test_a_cell_below_several_heads_belongs_to_none() -> None:
    spanning = Row((Cell(0, "Merger"), Cell(1, "not applicable", 2)))
    assert lines(row("", "2023", "2022"), row("Cash", "1", "2"), spanning)[-1] == "| Merger | not applicable"


def test_new_heads_further_down_take_the_place_of_the_old() -> None:
    found = lines(
        row("", "2023", "2022"),
        row("Cash", "1", "2"),
        row("Ratios"),
        row("", "Q1", "Q2"),
        row("Quick", "3", "4"),
    )
    assert found[1:] == ["| Cash | 2023: 1 | 2022: 2", "| Ratios", "| Q1 | Q2", "| Quick | Q1: 3 | Q2: 4"]


def test_words_that_stand_between_figures_are_no_heads() -> None:
    found = lines(
        row("", "2023", "2022"), row("Cash", "1", "2"), row("Place", "Zurich", "Paris"), row("Debt", "3", "4")
    )
    assert found[2:] == ["| Place | 2023: Zurich | 2022: Paris", "| Debt | 2023: 3 | 2022: 4"]


def test_figures_from_the_first_row_on_have_no_column_heads() -> None:
    assert lines(row("Cash", "1", "2"), row("Debt", "3", "4")) == ["| Cash | 1 | 2", "| Debt | 3 | 4"]


def test_names_and_values_are_not_taken_for_heads_and_figures() -> None:
    pairs = (row("Name", "Ann"), row("Age", "40"), row("City", "Paris"))
    assert lines(*pairs) == ["| Name | Ann", "| Age | 40", "| City | Paris"]


def test_a_table_of_words_has_heads_where_its_first_row_is_full() -> None:
    found = lines(row("Name", "Role", "City"), row("Ann", "Cook", "Paris"), row("Bo", "", "Rome"))
    assert found[1:] == ["| Ann | Role: Cook | City: Paris", "| Bo | City: Rome"]


def test_rows_that_the_format_names_heads_are_the_only_ones() -> None:
    found = lines(
        row("", "1", "2", is_head=True), row("Cash", "3", "4"), row("Note", "a", "b"), row("Debt", "5", "6")
    )
    assert found[1:] == ["| Cash | 1: 3 | 2: 4", "| Note | 1: a | 2: b", "| Debt | 1: 5 | 2: 6"]


def test_a_sign_in_a_cell_of_its_own_joins_its_number() -> None:
    heads = Row((Cell(1, "2023", 3), Cell(4, "2022", 3)))
    figures = Row((Cell(0, "Loss"), Cell(1, "$"), Cell(2, "(5"), Cell(3, ")"), Cell(5, "6"), Cell(6, "%")))
    assert lines(heads, figures)[-1] == "| Loss | 2023: $(5) | 2022: 6%"


@pytest.mark.parametrize(
    "text",
    ["5", "5,308", "(862)", "$ 14", "-1.5%", "—", "-", "€5.2bn", ".10", "37.6%", "12 (1)", "(4.8%)", "1 234"],
)
def test_what_is_a_figure(text: str) -> None:
    assert is_figure(text)


@pytest.mark.parametrize(
    "text", ["2023", "1999*", "28,", "January 28, 2023", "30.06.2023", "Q1", "N/A", "", "3rd"]
)
def test_what_is_none(text: str) -> None:
    assert not is_figure(text)

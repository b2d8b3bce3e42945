"""The order in which selected candidates are read."""

from __future__ import annotations

from mrag.query.sheet import cite, lay_out
from tests.query_pool import candidate


def test_candidates_of_a_document_keep_its_order_and_documents_that_of_the_selection() -> None:
    selected = [
        candidate("Third.", "b", 3),
        candidate("Only.", "a", 1),
        candidate("First.", "b", 1),
        candidate("Third.", "b", 3),
    ]
    sheet = lay_out(cite(selected), by_sentence=False)
    assert [passage.text for passage in sheet.passages.values()] == ["First.", "Third.", "Only."]

"""Numbers of the prompt leave keys and values; numbers of the document stay."""

from __future__ import annotations

import pytest

from mrag.indexing.identifiers import names_identifier, without_identifiers
from mrag.indexing.tagging import Window
from mrag.schema import SourceUnit


def window(*texts: str, before: str = "") -> Window:
    """Units from 7 on."""
    units = tuple(SourceUnit("d", 7 + at, 0, len(text), text) for at, text in enumerate(texts))
    return Window("Harbour notes", units, before)


FERRY = window("The ferry Alma was built in 1962.", "It sails from May on.")


@pytest.mark.parametrize(
    "mark",
    [
        "[7]",
        "[7][8]",
        "[7, 8]",
        "[7-8]",
        "[7–8]",
        "[7 and 8]",
        "[unit 7]",
        "(7)",
        "(7, 8)",
        "(Paragraphs 7-8)",
    ],
)
def test_what_the_prompt_numbered_is_taken_out(mark: str) -> None:
    assert without_identifiers(f"When was Alma built {mark}?", FERRY) == "When was Alma built?"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Is x in [7, 8]?", window("Let x be in [7,8].", "It is.")),
        ("What does [7] show?", window("As was shown [7].")),
        ("What does [7] show?", window("No.", before="As was shown [7].")),
        ("What are the seven (7) ferries?", window("There are seven ferries.")),
        ("What is case (7)?", window("In case 7 it ends.")),
        ("What is f(7)?", window("The function f of a number.")),
        ("What is [9] about?", FERRY),
        ("Who wrote of Alma (1962)?", FERRY),
        ("When is Alma (7, 1962) built?", FERRY),
        ("What does paragraph 7 of the law forbid?", window("Paragraph 7 forbids it.")),
        ("What does unit 7 make?", window("Unit seven makes power.")),
        ("What does paragraph 6 say?", FERRY),
        ("What do paragraphs 70 and 80 say?", FERRY),
        ("Which community 7 is it?", FERRY),
        ("What is in section 7?", FERRY),
    ],
)
def test_what_the_document_numbered_stays(text: str, shown: Window) -> None:
    assert without_identifiers(text, shown) == text
    assert not names_identifier(text, shown)


@pytest.mark.parametrize(
    "named", ["paragraph 7", "Paragraph [7]", "units 7 and 8", "passage no. 8", "unit (7)"]
)
def test_a_paragraph_that_only_the_prompt_numbers_is_named(named: str) -> None:
    text = f"What does {named} say of Alma?"
    assert names_identifier(without_identifiers(text, FERRY), FERRY)

"""What every builder promises of every document, whatever it makes its records of."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st

from mrag.documents.markdown import find_headings
from mrag.indexing.asking import Asker
from mrag.indexing.build_fixed import Fixed
from mrag.indexing.build_markers import Markers
from mrag.indexing.build_units import Units
from mrag.indexing.builder import Builder
from mrag.indexing.builders import make_builder
from mrag.models.language_model import Request
from mrag.models.scripted import ScriptedModel
from mrag.models.tokens import ByteTokenizer
from mrag.schema import Built, Document, RecordKind
from mrag.settings import DocumentSettings, ExtractionSettings, FixedBuilder, parse_settings
from tests.marker_replies import numbers_of, one_each, record, reply

TOKENIZER = ByteTokenizer()
LIMIT = DocumentSettings(max_unit_tokens=40)


def forgetful(request: Request) -> str:
    """Leaves units out, points to several, gives some of them twice and in disorder."""
    numbers = numbers_of(request)
    return reply(*(record(number) for number in numbers[::3]), record(*numbers[:2]), record(numbers[0]))


def markers() -> Markers:
    return Markers(ExtractionSettings(window_units=4, retries=0), TOKENIZER, LIMIT, {})


def fixed(tokens: int = 16, overlap: int = 5) -> Fixed:
    return Fixed(FixedBuilder(tokens=tokens, overlap=overlap), TOKENIZER, LIMIT, {})


def units() -> Units:
    return Units(TOKENIZER, LIMIT, {})


BUILDERS = {"markers": markers, "units": units, "fixed": fixed}
every_builder = pytest.mark.parametrize("name", BUILDERS)

LINES = st.sampled_from(
    [
        "",
        "",
        " \t",
        "\r0",
        "# Heading",
        "## Below",
        "One sentence. Another one!",
        "[3] words",
        "渡船于1962年",
        "x" * 50,
    ]
) | st.text(max_size=12)
DOCUMENTS = st.lists(LINES, max_size=12).map("\n".join)


def document(text: str, name: str = "d") -> Document:
    return Document(name, text, "Title", headings=find_headings(text))


def build(builder: Builder, given_document: Document) -> Built:
    return asyncio.run(builder.build(given_document, Asker(ScriptedModel(forgetful, max_concurrency=100))))


TEXT = "# One\n\nA first paragraph. It has two.\n\n# Two\n\nA second one.\n\nA third.\n\nAnd the last."


def check_promises(built: Built) -> None:
    numbers = [unit.number for unit in built.units]
    assert sorted({number for r in built.records for number in r.pointers}) == numbers
    assert built.coverage.after_repair == 1.0
    assert built.coverage.units == len(numbers)
    for each in built.records:
        assert each.document_id == built.document.id
        assert each.pointers == tuple(sorted(set(each.pointers))) != ()
        assert each.keys
        assert all(key.strip() for key in each.keys)
        assert each.value.strip()
    assert len({each.id for each in built.records}) == len(built.records)
    assert [each.pointers for each in built.records] == sorted(each.pointers for each in built.records)


@every_builder
@budget(max_examples=60)
@given(text=DOCUMENTS)
def test_every_unit_is_reached_and_every_record_is_whole(name: str, text: str) -> None:
    builder = BUILDERS[name]()
    built = build(builder, document(text))
    check_promises(built)
    assert build(builder, document(text)) == built


@every_builder
def test_ids_follow_from_document_content_and_builder(name: str) -> None:
    def ids(given_document: Document) -> set[str]:
        return {each.id for each in build(BUILDERS[name](), given_document).records}

    here = ids(document(TEXT))
    assert ids(document(TEXT)) == here
    assert not here & ids(document(TEXT, name="another"))
    if name != "markers":  # a scripted marker says the same of every content
        assert here & ids(document(TEXT + " It is longer.")) < here


def test_other_replies_of_the_model_give_other_ids() -> None:
    def ids(value: str) -> set[str]:
        model = ScriptedModel(lambda request: reply(record(*numbers_of(request)[:3], value=value)))
        built = asyncio.run(markers().build(document("A first. A second."), Asker(model)))
        return {each.id for each in built.records}

    assert not ids("It is the first.") & ids("It is the second.")


@every_builder
def test_an_empty_document_has_no_records(name: str) -> None:
    built = build(BUILDERS[name](), document(" \n\n \t"))
    assert (built.units, built.records, built.coverage.after_repair) == ((), (), 1.0)


def test_a_unit_is_its_own_record() -> None:
    built = build(units(), document(TEXT))
    assert [(r.keys, r.value, r.pointers, r.kind) for r in built.records] == [
        ((unit.text,), unit.text, (unit.number,), RecordKind.UNIT) for unit in built.units
    ]
    assert built.coverage.before_repair == 1.0


@budget(max_examples=150)
@given(text=DOCUMENTS, tokens=st.integers(8, 40), share=st.floats(0, 0.9))
def test_chunks_are_stretches_that_leave_nothing_out(text: str, tokens: int, share: float) -> None:
    overlap = int(tokens * share)
    built = build(fixed(tokens, overlap), document(text))
    places = []
    chunks = [each for each in built.records if each.kind is RecordKind.CHUNK]
    covered = set[int]()
    for start, end in _chunks(text, tokens, overlap):
        if not text[start:end].strip():
            continue
        places.append((start, end))
        covered.update(range(start, end))
    if not built.units:
        assert chunks == []
        return
    assert sorted(chunk.value for chunk in chunks) == sorted(text[start:end].strip() for start, end in places)
    assert all(chunk.keys == (chunk.value,) for chunk in chunks)
    assert {at for at, character in enumerate(text) if not character.isspace()} <= covered
    for chunk in chunks:
        assert TOKENIZER.count(chunk.value) <= tokens + 3  # a character that is cut is taken whole


def _chunks(text: str, tokens: int, overlap: int) -> list[tuple[int, int]]:
    """The same by hand: the character of every token, cut every `tokens - overlap` of them."""
    places = [start for start, _ in TOKENIZER.spans(text)]
    firsts = range(0, max(len(places) - overlap, 1), tokens - overlap)
    ends = [*places, len(text)]
    return [(ends[first], ends[min(first + tokens, len(places))]) for first in firsts] if places else []


def test_neighbouring_chunks_share_their_overlap() -> None:
    text = "".join(chr(ord("a") + at % 26) for at in range(39))
    built = build(fixed(tokens=12, overlap=3), document(text))
    values = [each.value for each in built.records]
    assert values == [text[0:12], text[9:21], text[18:30], text[27:39]]
    assert all(one[-3:] == other[:3] for one, other in pairwise(values))
    assert [each.pointers for each in built.records] == [(1,)] * 4


def test_a_chunk_of_headings_points_to_what_follows() -> None:
    text = "# A heading of some length\n\nThe text below it."
    built = build(fixed(tokens=10, overlap=0), document(text))
    assert [(each.value, each.pointers) for each in built.records[:2]] == [
        ("# A headin", (1,)),
        ("g of some", (1,)),
    ]


def test_the_builder_is_that_of_the_method() -> None:
    kinds = {"sane": Units, "fixed": Fixed, "ours": Markers}
    for method, kind in kinds.items():
        assert type(make_builder(parse_settings({"method": method}), TOKENIZER)) is kind


def test_fingerprints_tell_builders_and_their_parameters_apart() -> None:
    def fingerprint(**tree: object) -> str:
        return make_builder(parse_settings(tree), TOKENIZER).fingerprint

    found = [
        fingerprint(method="sane"),
        fingerprint(method="fixed"),
        fingerprint(method="ours"),
        fingerprint(method="sane", documents={"max_unit_tokens": 100}),
        fingerprint(method="sane", documents={"unit": "tokens"}),
        fingerprint(method="ours", extraction={"window_units": 2}),
        fingerprint(method="ours", extractor={"engine": "vllm", "model": "another"}),
        fingerprint(method={"builder": {"name": "fixed", "tokens": 64}}),
    ]
    assert len(set(found)) == len(found)
    assert fingerprint(method="ours", extraction={"key_text": "key"}) == fingerprint(method="ours")
    assert fingerprint(method="sane", extraction={"window_units": 2}) == fingerprint(method="sane")


def test_a_model_in_a_folder_is_told_by_its_weights(tmp_path: Path) -> None:
    def builder_of(model: str) -> Builder:
        tree = {"method": "ours", "extractor": {"engine": "vllm", "model": model}}
        return make_builder(parse_settings(tree), TOKENIZER)

    weights = tmp_path / "mine" / "model.safetensors"
    weights.parent.mkdir()
    weights.write_bytes(b"first")
    first = builder_of(str(weights.parent)).fingerprint
    moved = weights.parent.rename(tmp_path / "elsewhere")
    assert builder_of(str(moved)).fingerprint == first
    (moved / weights.name).write_bytes(b"second")
    assert builder_of(str(moved)).fingerprint != first
    # Names of catalogues and hubs say it themselves: what was built by them stays valid.
    default = make_builder(parse_settings({"method": "ours"}), TOKENIZER)
    assert default.parameters["model"] == "qwen2.5-coder-0.5b-instruct"


def test_a_good_model_needs_no_repair() -> None:
    built = asyncio.run(markers().build(document(TEXT), Asker(ScriptedModel(one_each))))
    assert built.coverage.before_repair == 1.0
    assert {each.kind for each in built.records} == {RecordKind.MARKER}

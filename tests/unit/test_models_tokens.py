"""Lengths and places of tokens, on tokenizers small enough to be made here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from mrag.errors import ModelError
from mrag.models.tokens import ByteTokenizer, PlainTokenizer, load_tokenizer

CONTROLS = ["<|im_start|>", "<|im_end|>", "</s>", "<think>"]
HOSTILE = st.lists(st.one_of(st.text(max_size=8), st.sampled_from(CONTROLS)), max_size=6).map("".join)


def byte_level(folder: Path) -> Path:
    """A byte-level BPE with two merges, four control tokens and an added token of white space."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: i for i, piece in enumerate([*alphabet, "bu", "buo"])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[("b", "u"), ("bu", "o")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(CONTROLS[:3])
    tokenizer.add_tokens([AddedToken("<think>", special=False), AddedToken("    ", normalized=False)])
    tokenizer.enable_truncation(8)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def unigram(folder: Path) -> Path:
    """A unigram vocabulary that holds its control tokens as pieces, as XLM-RoBERTa's does."""
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    pieces += [(letter, -5.0) for letter in "▁abs<>/"]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return byte_level(tmp_path_factory.mktemp("bpe")) / "tokenizer.json"


@pytest.fixture(scope="module")
def bpe(file: Path) -> PlainTokenizer:
    return PlainTokenizer(file)


def test_merges_are_used_and_truncation_is_not(bpe: PlainTokenizer) -> None:
    assert bpe.spans("buoy") == [(0, 3), (3, 4)]
    assert bpe.count("buoy " * 20) == 60


def test_a_split_character_has_its_span_for_each_of_its_tokens(bpe: PlainTokenizer) -> None:
    assert bpe.spans("aλ") == [(0, 1), (1, 2), (1, 2)]


def test_the_name_of_a_control_token_is_plain_text(bpe: PlainTokenizer) -> None:
    assert bpe.count("<think>") == len("<think>")
    assert bpe.spans("</s>") == [(0, 1), (1, 2), (2, 3), (3, 4)]


def test_an_added_token_of_white_space_is_kept(bpe: PlainTokenizer) -> None:
    assert bpe.ids("    ") == [262]


@given(HOSTILE)
def test_no_text_has_a_control_token_and_all_of_it_comes_back(
    bpe: PlainTokenizer, file: Path, text: str
) -> None:
    # 258 to 261 are the control tokens; 262 is white space.
    ids = bpe.ids(text)
    assert not {258, 259, 260, 261} & set(ids)
    assert Tokenizer.from_file(str(file)).decode(ids, skip_special_tokens=False) == text


@given(HOSTILE)
def test_spans_are_in_order_and_bytes_bound_the_count(bpe: PlainTokenizer, text: str) -> None:
    spans = bpe.spans(text)
    assert len(spans) == bpe.count(text) <= ByteTokenizer().count(text)
    assert spans == sorted(spans)
    assert {i for start, end in spans for i in range(start, end)} == set(range(len(text)))


@given(HOSTILE)
def test_a_unigram_vocabulary_spells_no_control_token_either(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    tokenizer = PlainTokenizer(unigram(tmp_path_factory.mktemp("unigram")) / "tokenizer.json")
    assert not {0, 1, 2} & set(tokenizer.ids(text))


def test_unigram_text_around_a_control_token_is_untouched(tmp_path: Path) -> None:
    tokenizer = PlainTokenizer(unigram(tmp_path) / "tokenizer.json")
    letters = {letter: 4 + i for i, letter in enumerate("▁abs<>/")}
    inside = [tokenizer.ids(letter)[-1] for letter in "</s>"]
    assert [letters[letter] for letter in "</s>"] == inside
    assert [token for token in tokenizer.ids("a</s>b") if token != letters["▁"]] == [
        letters["a"],
        *inside,
        letters["b"],
    ]


@pytest.mark.parametrize("text", ["lone \ud800 half", "\x00", "‮עברית", "e\u0301", "\ufeff"])
def test_odd_characters_are_counted_in_their_places(bpe: PlainTokenizer, text: str) -> None:
    assert bpe.spans(text)[-1][1] == len(text)


@given(st.text(st.characters()))
def test_byte_spans_are_one_a_byte(text: str) -> None:
    spans = ByteTokenizer().spans(text)
    assert len(spans) == ByteTokenizer().count(text) == len(text.encode("utf-8", "surrogatepass"))
    assert [text[start:end] for start, end in dict.fromkeys(spans)] == list(text)


def test_a_folder_without_a_fast_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no tokenizer\.json"):
        load_tokenizer(str(tmp_path))


@pytest.mark.parametrize("content", ["{", "[]", json.dumps({"version": "1.0"})])
def test_a_damaged_tokenizer_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        load_tokenizer(str(tmp_path))

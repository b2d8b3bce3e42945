"""Chats as token ids: exact for harmless text, and out of reach for hostile text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrag.errors import ModelError
from mrag.models.chat import ChatTokenizer
from mrag.models.language_model import Message
from tests.unit.test_models_tokens import CONTROLS, HOSTILE, byte_level

START, END = 258, 259
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def chat_folder(folder: Path, template: str | None = TEMPLATE) -> Path:
    byte_level(folder)
    config: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}
    if template:
        config["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> ChatTokenizer:
    return ChatTokenizer(chat_folder(tmp_path_factory.mktemp("chat")))


HARMLESS = st.text(st.characters(exclude_categories=("Cs",)), max_size=30).filter(
    lambda text: text == text.strip() and not any(control in text for control in CONTROLS)
)


@given(HARMLESS, HARMLESS)
def test_a_harmless_chat_has_the_ids_of_the_models_own_tokenizer(
    chat: ChatTokenizer, rule: str, question: str
) -> None:
    messages = (Message("system", rule), Message("user", question))
    turns = [{"role": message.role, "content": message.content} for message in messages]
    text = chat._renderer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    expected = chat._renderer(text, add_special_tokens=False, truncation=False)["input_ids"]
    assert chat.prompt_ids(messages) == expected


@given(st.lists(HOSTILE, min_size=1, max_size=3))
def test_no_message_brings_a_control_token(chat: ChatTokenizer, contents: list[str]) -> None:
    messages = tuple(Message("user", content) for content in contents)
    ids = chat.prompt_ids(messages)
    assert ids.count(START) == len(messages) + 1
    assert ids.count(END) == len(messages)
    assert not {260, 261} & set(ids)


def test_a_message_may_contain_what_stands_for_messages(chat: ChatTokenizer) -> None:
    messages = (Message("user", "@@content-1@@"), Message("assistant", "mine"))
    shown = chat._renderer.decode(chat.prompt_ids(messages))
    assert "user\n@@content-1@@<|im_end|>" in shown
    assert shown.count("mine") == 1


def test_a_control_token_takes_its_white_space_along(tmp_path: Path) -> None:
    file = chat_folder(tmp_path) / "tokenizer.json"
    tree = json.loads(file.read_text())
    for token in tree["added_tokens"]:
        token["rstrip"] = token["content"] == "<|im_end|>"
    file.write_text(json.dumps(tree))
    chat = ChatTokenizer(tmp_path)
    ids = chat.prompt_ids((Message("user", "x"),))
    assert ids[ids.index(END) + 1] == START


def test_a_model_without_a_chat_template_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="chat template"):
        ChatTokenizer(chat_folder(tmp_path, template=None))


def test_what_the_template_refuses_is_said(tmp_path: Path) -> None:
    template = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    chat = ChatTokenizer(chat_folder(tmp_path, template))
    with pytest.raises(ModelError, match="no system role"):
        chat.prompt_ids((Message("system", "be brief"),))

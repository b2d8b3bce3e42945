"""Chats become token ids in which only the template's own control tokens are control tokens.

A document may contain `<|im_start|>`, `</s>` or `<think>`: inside a message these are plain text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mrag.errors import ModelError
from mrag.models.language_model import Message
from mrag.models.tokens import PlainTokenizer, read_tokenizer

PLACEHOLDER = re.compile(r"@@content-(\d+)@@")


class ChatTokenizer:
    """Renders the chat template of a model's folder over placeholders, and fills these in as plain text.

    Between two control tokens the template's words and a message's are encoded in one go, so that
    a harmless chat has exactly the ids that the model was trained with.
    """

    def __init__(self, folder: Path) -> None:
        from transformers import AutoTokenizer

        self.plain = PlainTokenizer(folder / "tokenizer.json")
        added = read_tokenizer(folder / "tokenizer.json")["added_tokens"]
        tokens = sorted(added, key=lambda token: -len(token["content"]))
        self._ids: dict[str, int] = {token["content"]: token["id"] for token in tokens}
        self._controls = re.compile(f"({'|'.join(map(_pattern, tokens)) or '(?!)'})")
        self._renderer: Any = AutoTokenizer.from_pretrained(folder)
        if not self._renderer.chat_template:
            raise ModelError(f"The model in {folder} has no chat template: give one that was made for chats.")

    def prompt_ids(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of the chat, up to where the assistant begins to speak. Raises ModelError."""
        ids: list[int] = []
        text = ""
        for i, piece in enumerate(PLACEHOLDER.split(self._render(messages))):
            if i % 2:
                text += messages[int(piece)].content
                continue
            for j, part in enumerate(self._controls.split(piece)):
                if j % 2:
                    ids += [*self.plain.ids(text), self._ids[part.strip()]]
                    text = ""
                else:
                    text += part
        return ids + self.plain.ids(text)

    def _render(self, messages: Sequence[Message]) -> str:
        import jinja2

        chat = [{"role": message.role, "content": f"@@content-{i}@@"} for i, message in enumerate(messages)]
        try:
            rendered = self._renderer.apply_chat_template(
                chat, tokenize=False, add_generation_prompt=True, enable_thinking=False
            )
        except jinja2.TemplateError as error:
            raise ModelError(f"The model's chat template refuses this chat: {error}.") from None
        return str(rendered)


def _pattern(token: dict[str, Any]) -> str:
    """The token in rendered text, with the white space that it takes along."""
    left, right = (r"\s*" if token.get(side) else "" for side in ("lstrip", "rstrip"))
    return left + re.escape(str(token["content"])) + right

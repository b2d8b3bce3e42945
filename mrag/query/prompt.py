"""Prompts are files of chat turns; what documents and askers write is made harmless before it enters."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from string import Template

import yaml

from mrag.models.language_model import LanguageModel, Message

_TAG = re.compile(r"<(?=[^\s\d=<])")


def inert(text: str) -> str:
    """`text` in which no tag or control token of any chat template begins: `<x` becomes `< x`.

    The prompts mark their own parts with tags, so that no document can close or forge one.
    """
    return _TAG.sub("< ", text)


def one_line(text: str) -> str:
    """`text` made inert, on a single line."""
    return " ".join(inert(text).split())


def indented(text: str) -> str:
    """`text` made inert, its later lines indented: only labels begin a line."""
    return "\n  ".join(inert(text).splitlines())


def render(name: str, **values: str) -> tuple[Message, ...]:
    """The chat of the prompt file `name`, its `$placeholders` filled."""
    return tuple(Message(turn.role, Template(turn.content).substitute(values)) for turn in _turns(name))


@cache
def _turns(name: str) -> tuple[Message, ...]:
    turns = yaml.safe_load((files("mrag") / "prompts" / f"{name}.yaml").read_text("utf-8"))
    return tuple(Message(**turn) for turn in turns)


def room(model: LanguageModel, messages: tuple[Message, ...], reply_tokens: int) -> int:
    """Tokens of the window that prompt and reply leave free; negative where they exceed it."""
    return model.window_tokens - reply_tokens - model.count_prompt_tokens(messages)

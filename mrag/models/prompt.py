"""Prompts are files of chat turns; what documents and askers write is made harmless before it enters."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

import yaml

from mrag.models.language_model import LanguageModel, Message

# Tokens of chat templates that stand in square brackets: Llama 2, Mistral, GLM.
_NAMES = "INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|ARGS|CALL_ID|THINK|[gs]MASK"
_BRACKETED = rf"\[(?=/?(?:{_NAMES})\])"
CONTROL_TOKEN = re.compile(
    r"<[|｜][^<>\n]{1,64}[|｜]>|</?(?:s|bos|eos|pad|unk|think|start_of_turn|end_of_turn)>|<</?SYS>>|"
    + _BRACKETED
)
_ASKING = re.compile(r"(?<![^\n\r\v\f\x1c-\x1e\x85\u2028\u2029])(?=question\s*:)", re.IGNORECASE)
_OPENING = re.compile(rf"<(?=[^\s\d=<])|{_BRACKETED}")


def inert(text: str) -> str:
    """`text` in which no tag or control token of any chat template begins: `<x` becomes `< x`.

    The prompts mark their own parts with tags, so that no document can close or forge one. Brackets are
    common in documents: only those of known control tokens are opened, `[INST]` becomes `[ INST]`.
    """
    return _OPENING.sub(r"\g<0> ", text)


def one_line(text: str) -> str:
    """`text` made inert, on a single line."""
    return " ".join(inert(text).split())


def shortened(text: str, characters: int) -> str:
    """The beginning of `text` on one line, inert, in at most so many characters; … says that it was cut."""
    # `inert` makes text longer, never shorter, so that no more of it than this can be shown.
    words = one_line(text[: 4 * characters])
    if len(words) <= characters and len(text) <= 4 * characters:
        return words
    return words[: characters - 1].rstrip() + "…"


def indented(text: str) -> str:
    """`text` made inert, its later lines indented: only labels begin a line."""
    return "\n  ".join(inert(text).splitlines())


def unasking(text: str) -> str:
    """`text` whose lines that begin with `Question:` are indented: the prompt's own is the only one."""
    return _ASKING.sub("  ", text)


def render(name: str, **values: str) -> tuple[Message, ...]:
    """The chat of the prompt file `name`, its `$placeholders` filled."""
    return tuple(Message(turn.role, filled(turn.content, **values)) for turn in _turns(name))


def filled(template: str, **values: str) -> str:
    """A part of a prompt with these `$placeholders` filled; what is filled in is taken as it is."""
    return Template(template).substitute(values)


def prompt_identity(name: str, *rest: str) -> str:
    """A hash of the prompt file's text, and of what else the prompt is made of, for fingerprints."""
    return hashlib.sha256("\0".join((_text(name), *rest)).encode()).hexdigest()[:16]


@cache
def prompt_tree(name: str) -> Any:
    """The parts of a prompt file that is no list of turns."""
    return yaml.safe_load(_text(name))


@cache
def _turns(name: str) -> tuple[Message, ...]:
    return tuple(Message(**turn) for turn in prompt_tree(name))


@cache
def _text(name: str) -> str:
    return (files("mrag") / "prompts" / f"{name}.yaml").read_text("utf-8")


def room(model: LanguageModel, messages: tuple[Message, ...], reply_tokens: int) -> int:
    """Tokens of the window that prompt and reply leave free; negative where they exceed it."""
    return model.window_tokens - reply_tokens - model.count_prompt_tokens(messages)

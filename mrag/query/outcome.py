"""How a question ended, for those who count."""

from __future__ import annotations

from mrag.schema import Answer

UNKNOWN = "unknown"  # what the prompts have a model reply where it is not told the answer


def abstained(answer: Answer) -> bool:
    """Whether there is no answer: no text, or the word with which a model says so."""
    return answer.text.strip(" \n.").lower() in ("", UNKNOWN)


def failed(answer: Answer) -> bool:
    """Whether there is no text because its stage failed."""
    return any(stage.failed for stage in answer.trace if stage.stage == "generate")


def fell_back(answer: Answer) -> bool:
    """Whether a reader that wants evidence read raw units for want of it: only it selects candidates."""
    return bool(answer.selected) and answer.context is not None

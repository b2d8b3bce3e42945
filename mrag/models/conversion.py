"""GGUF weights become a Hugging Face folder: `python -m mrag.models.conversion SOURCE TARGET`.

Run as a process of its own, so that the memory it takes (four bytes a parameter and more) goes back.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mrag.errors import ModelError

TURN_ENDS = ("<|im_end|>", "<|endoftext|>")
PROBE = "A buoy, 12.5 m high: naïve “quotes”,\n\n\tλ and 日本語."


def convert(source: Path, target: Path) -> None:
    """Writes bf16 weights, the tokenizer, its chat template and the tokens that end a reply.

    Raises ModelError where tokenizer or template did not survive, for such a model would babble.
    """
    import functools

    import gguf
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, GgufConfig

    # transformers opens the file three times, and to read its vocabulary takes longer than all the rest.
    gguf.GGUFReader = functools.cache(gguf.GGUFReader)
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    ends = check_tokenizer(tokenizer)
    model = AutoModelForCausalLM.from_pretrained(
        source.parent,
        gguf_file=source.name,
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.bfloat16,
    )
    model.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id, eos_token_id=ends, pad_token_id=tokenizer.pad_token_id
    )
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


def check_tokenizer(tokenizer: Any) -> list[int]:
    """Ids of the tokens that end a reply, the template's own end of turn first."""
    ids = tokenizer.encode(PROBE, add_special_tokens=False)
    if tokenizer.decode(ids) != PROBE:
        raise ModelError(f"the tokenizer of {tokenizer.name_or_path} does not give text back as it was")
    if not tokenizer.chat_template:
        raise ModelError(f"{tokenizer.name_or_path} has no chat template")
    turn = tokenizer.apply_chat_template([{"role": "user", "content": "x"}], tokenize=False)
    known = tokenizer.get_added_vocab()
    ends = [known[token] for token in (*TURN_ENDS, tokenizer.eos_token) if token in known]
    if known.get(TURN_ENDS[0]) not in tokenizer.encode(turn, add_special_tokens=False):
        raise ModelError(f"the chat template of {tokenizer.name_or_path} does not end its turns")
    return list(dict.fromkeys(ends))


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))

"""A tiny random model of bge-m3's make: XLM-RoBERTa, 1024 dimensions, first-token pooling."""

from __future__ import annotations

from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Normalize, Pooling, Transformer
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaModel

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def tiny_bge_m3(folder: Path) -> Path:
    """As bge-m3 comes from its hub: its weights in pytorch_model.bin."""
    raw, ready = folder / "raw", folder / "ready"
    _xlm_roberta(raw)
    transformer = Transformer(str(raw), max_seq_length=128)
    SentenceTransformer(modules=[transformer, Pooling(1024, "cls"), Normalize()]).save(str(ready))
    torch.save(transformer.auto_model.state_dict(), ready / "pytorch_model.bin")
    (ready / "model.safetensors").unlink()
    return ready


def _xlm_roberta(folder: Path) -> None:
    pieces = [(token, 0.0) for token in SPECIAL] + [
        (letter, -3.0) for letter in "▁abcdefghijklmnopqrstuvwxyz:"
    ]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>"}
    names |= {"pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=512, **names)
    fast.save_pretrained(folder)
    torch.manual_seed(7)
    config = XLMRobertaConfig(
        vocab_size=len(pieces), hidden_size=1024, num_hidden_layers=1, num_attention_heads=4,
        intermediate_size=32, max_position_embeddings=514, pad_token_id=1,
    )  # fmt: skip
    XLMRobertaModel(config, add_pooling_layer=False).save_pretrained(folder)

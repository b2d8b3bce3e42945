"""mrag: semantic key-value indexing (M-RAG) with select-and-extract answering (SANE)."""

from __future__ import annotations

__version__ = "0.1.0"

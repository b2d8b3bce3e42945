"""How mrag's values ride in Ray Data blocks: one Arrow bytes column, so that no block needs a schema.

The bytes are pickles between processes of one job; none of them is ever written to a collection.
"""

from __future__ import annotations

import pickle
from typing import Any

Row = dict[str, Any]
Batch = dict[str, Any]


def pack(value: Any) -> bytes:
    """A frozen value as bytes for a block."""
    return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)


def unpack(data: bytes) -> Any:
    """The value of `pack`."""
    return pickle.loads(data)


def unpack_column(batch: Batch, column: str) -> list[Any]:
    """All values of one packed column, in order."""
    return [unpack(data) for data in batch[column]]

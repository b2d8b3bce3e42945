"""What a kept reply is found by: the one identity of a request, for the ledger and for experiments."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any

from mrag.models.language_model import Request


def request_key(request: Request, model: str, **also: Any) -> str:
    """Of all that a reply depends on: the rendered request, the name of the model, decoding.

    The purpose and the time allowed are no part of it. `also` are JSON values that the reply depends on
    beside them.
    """
    parts = {
        "messages": [asdict(message) for message in request.messages],
        "schema": request.schema,
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "seed": request.seed,
        "model": model,
        **also,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

"""A model hub, where one is reached: whole models, or a tokenizer alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mrag.errors import ModelError

REACH_S = 3.0
TOKENIZER_FILES = ["tokenizer*", "special_tokens_map.json", "chat_template*", "config.json"]
OTHER_FORMATS = ["*.h5", "*.msgpack", "*.ot", "*.onnx", "*.gguf", "*.tflite", "onnx/*", "openvino/*"]
PICKLES = ["pytorch_model*.bin", "*.pt", "*.pth", "original/*"]


def hub_reached() -> bool:
    """Whether the hub's address answers within three seconds; never when HF_HUB_OFFLINE is set."""
    import httpx
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        return httpx.head(constants.ENDPOINT, timeout=REACH_S).status_code < 500
    except httpx.HTTPError:
        return False


def fetch_model(hub_id: str, folder: Path | None = None) -> tuple[Path, str]:
    """Where the files of a model are, and its commit: in `folder`, or in the hub client's own cache.

    Pickled weights are taken only where there are no others. Interrupted fetches go on where they
    were, and the client shows its own progress. Raises ModelError.
    """
    revision = _commit(hub_id) if folder else None
    found = _snapshot(hub_id, local_dir=folder, revision=revision, ignore_patterns=[*OTHER_FORMATS, *PICKLES])
    if not any(found.glob("*.safetensors")):
        found = _snapshot(hub_id, local_dir=folder, revision=revision, ignore_patterns=OTHER_FORMATS)
    return found, revision or found.name


def fetch_tokenizer(hub_id: str) -> Path:
    """The files of a model's tokenizer, in the hub client's own cache. Raises ModelError."""
    return _snapshot(hub_id, allow_patterns=TOKENIZER_FILES)


def _snapshot(hub_id: str, **options: Any) -> Path:
    import httpx
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(hub_id, local_files_only=not hub_reached(), **options))
    except (OSError, ValueError, httpx.HTTPError) as error:
        raise _refusal(hub_id, error) from None


def _commit(hub_id: str) -> str:
    import httpx
    from huggingface_hub import HfApi

    try:
        return str(HfApi().model_info(hub_id).sha)
    except (OSError, ValueError, httpx.HTTPError) as error:
        raise _refusal(hub_id, error) from None


def _refusal(hub_id: str, error: Exception) -> ModelError:
    reason = " ".join(str(error).split())
    return ModelError(
        f"Can't have {hub_id!r} from a model hub ({reason}): "
        "give a folder that holds the model, or a name that `mrag models` lists."
    )

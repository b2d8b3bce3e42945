"""Where mrag keeps on a machine what can be fetched again: weights, and what it read of object stores."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def home() -> Path:
    """The folder MRAG_HOME, or the user's cache folder of mrag."""
    folder = os.environ.get("MRAG_HOME") or platformdirs.user_cache_dir("mrag", appauthor=False)
    return Path(folder).expanduser()


def stores() -> Path:
    """The folder MRAG_STORES, where what was read of object stores is kept, or one in `home`."""
    folder = os.environ.get("MRAG_STORES")
    return Path(folder).expanduser() if folder else home() / "stores"

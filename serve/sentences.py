"""What an error may say to callers: its sentence without what only the machine and its log should know."""

from __future__ import annotations

import logging

from mrag.documents.jail import without_paths

_log = logging.getLogger(__name__)


def sentence_of(error: Exception) -> str:
    """The sentence; one that names a path or an address of the server is told to the log as it is."""
    sentence = without_paths(str(error), ())
    if sentence != str(error):
        _log.warning("A caller was not told all of this: %s", error)
    return sentence

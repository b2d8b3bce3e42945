"""The process's crash handler, kept while a native library is loaded that would put its own in its place."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_LARGER_THAN_A_SIGACTION = 512


@contextmanager
def segv_handler_kept() -> Iterator[None]:
    """Whatever answers SIGSEGV when the block begins answers it again when the block is left.

    A Java machine raises the signal for its own ends and must be the one to answer it: a library that
    takes it over ends the process at the next of them. Python's `signal` can't give back a handler that
    native code has set, so the C library is asked.
    """
    library = ctypes.CDLL(None, use_errno=True)
    before = ctypes.create_string_buffer(_LARGER_THAN_A_SIGACTION)
    if library.sigaction(int(signal.SIGSEGV), None, before):
        raise OSError(ctypes.get_errno(), "sigaction")
    try:
        yield
    finally:
        library.sigaction(int(signal.SIGSEGV), before, None)

"""Who answers SIGSEGV: each case in a process of its own, since a handler is the whole process's."""

from __future__ import annotations

import subprocess
import sys

HANDLER = """
import contextlib, ctypes, signal
from mrag.models.crash_handlers import segv_handler_kept

def handler():
    action = ctypes.create_string_buffer(512)
    ctypes.CDLL(None).sigaction(int(signal.SIGSEGV), None, action)
    return action.raw[:8]
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", HANDLER + code]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_grammar_library_takes_the_signal_unless_it_is_kept() -> None:
    code = """
before = handler()
with {block}:
    import xgrammar
print(handler() == before)
"""
    assert run(code.format(block="contextlib.nullcontext()")).stdout.strip() == "False"
    assert run(code.format(block="segv_handler_kept()")).stdout.strip() == "True"


def test_the_handler_comes_back_when_the_block_fails() -> None:
    done = run("""
before = handler()
try:
    with segv_handler_kept():
        import xgrammar
        raise KeyError
except KeyError:
    print(handler() == before)
""")
    assert done.stdout.strip() == "True", done.stderr


def test_a_java_machine_survives_the_grammar_library() -> None:
    done = run("""
from mrag.collection.jvm import java_class
java_class("java.lang.String")
before = handler()
with segv_handler_kept():
    import xgrammar
print(before != bytes(8), handler() == before)
""")
    assert done.stdout.split() == ["True", "True"], done.stderr

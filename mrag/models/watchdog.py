"""Ends an engine's processes when the process that started them is gone, however it went."""

from __future__ import annotations

import multiprocessing
import subprocess

# Reads one process id a line; the end of its input is the end of the process that writes them.
SCRIPT = """
while read -r pid; do pids="$pids $pid"; done
kill -TERM $pids && sleep 5 && kill -KILL $pids
"""


class Watchdog:
    """A shell that waits for the death of this process and then ends the children that it was told.

    vLLM's engine outlives a parent that was killed with -9, and keeps gigabytes of memory.
    """

    def __init__(self) -> None:
        self._others = {child.pid for child in multiprocessing.active_children()}
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Control-C in the terminal is not meant for it.
            text=True,
        )

    def watch_children(self) -> None:
        """Tells it of the processes that were started since it was made."""
        assert self._shell.stdin
        for child in multiprocessing.active_children():
            if child.pid not in self._others:
                self._others.add(child.pid)
                self._shell.stdin.write(f"{child.pid}\n")
                self._shell.stdin.flush()

    def bite(self) -> None:
        """Ends the children now, as if this process had died."""
        assert self._shell.stdin
        self._shell.stdin.close()

    def dismiss(self) -> None:
        """The children have ended as they should: there is nothing to watch."""
        self._shell.kill()
        self._shell.wait()

"""What every test runs under, however pytest was started: no network, telemetry, real keys or clock."""

from __future__ import annotations

import os
import signal

from hypothesis import settings

# Read when ray is imported: its crash handler would take the SIGSEGV that a JVM raises for itself.
os.environ.setdefault("RAY_DISABLE_FAILURE_SIGNAL_HANDLER", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.pop("OPENAI_API_KEY", None)

# The background job of a shell begins with it ignored, and hands that on to every process of a test.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Speed is measured in benchmarks: a slow example on a busy machine is no fault.
settings.register_profile("mrag", deadline=None)
settings.load_profile("mrag")

"""Entry points for `ray job submit`: thin shells around `mrag`, run as modules (`python -m jobs.index`)."""

import os

# Before Ray is imported: a job may start Java itself, which uses SIGSEGV, and dies where Ray catches it too.
os.environ.setdefault("RAY_DISABLE_FAILURE_SIGNAL_HANDLER", "1")

"""Entry points for `ray job submit`: thin shells around `mrag`, run as modules (`python -m jobs.index`)."""

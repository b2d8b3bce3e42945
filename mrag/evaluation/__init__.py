"""Measuring: how good answers and pools are, on questions whose answers are known."""

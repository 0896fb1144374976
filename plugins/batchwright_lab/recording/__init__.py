"""Recorded runs: their decision logs, read back."""

"""Distributions that ``batchwright new`` writes."""

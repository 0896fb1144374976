"""Batchwright: a plugin framework for scheduling LLM inference."""

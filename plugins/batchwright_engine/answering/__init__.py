"""Batches of prompts: read, answered, written down and measured."""

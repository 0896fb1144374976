"""Configurations as TOML, with their documentation."""

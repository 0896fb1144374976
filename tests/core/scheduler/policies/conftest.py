"""Policies as an author would write them: each in a file of its own, loaded by its path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PLUGINS = Path(__file__).with_name("plugins")


def _sections(module: str, options: dict[str, Any]) -> dict[str, Any]:
    """What a TOML file says to load a plugin and use what it offers."""
    name = module.replace("_", "-")
    selected: dict[str, dict[str, Any]] = {
        "adapter_slots": {"resource": [{"use": name, **options}]},
        "hold_latency": {"control": [{"use": name, **options}]},
    }
    policy = {"policy": {name: options}}
    return {
        "plugins": {"load": [str(PLUGINS / f"{module}.py")]},
        "observer": [{"use": "invariants"}],
        **selected.get(module, policy),
    }


@pytest.fixture
def load(make_bench: Any) -> Callable[..., Any]:
    """A bench with one of the plugins, loaded by its path, and watched throughout."""

    def make(
        module: str,
        options: dict[str, Any] | None = None,
        *,
        sections: dict[str, Any] | None = None,
        **bench: Any,
    ) -> Any:
        found = {**_sections(module, options or {}), **(sections or {})}
        if "policy" in found:
            bench.setdefault("policy", module.replace("_", "-"))
        return make_bench(sections=found, **bench)

    return make

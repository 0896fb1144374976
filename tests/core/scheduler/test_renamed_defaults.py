"""The worked steps under renamed copies of every default, from another distribution.

Core must not depend on what its defaults are called, nor on their being ours: all of
them are disabled here, and the TOML selects the copies.
"""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from batchwright import PluginError, VirtualClock
from batchwright.assembly import Assembly
from batchwright.config import load_config
from batchwright.plugin_manager import PluginManager

# What another distribution would ship: each default, under another class and name.
COPIES = """
    from importlib import import_module

    from batchwright.plugin import hookimpl
    from batchwright.default_plugins import DEFAULT_PLUGINS
    from batchwright.lazy_component import LazyComponent

    KINDS = (
        "scheduler", "policy", "gate", "limit", "victim", "preemption", "predictor", "estimator",
        "kv", "hasher", "eviction", "executor",
    )

    def copies(kind):
        for module in map(import_module, DEFAULT_PLUGINS):
            hook = getattr(module, f"batchwright_register_{kind}", list)
            for offered in hook():
                cls = offered.load() if isinstance(offered, LazyComponent) else offered
                yield type(f"X{cls.__name__}", (cls,), {"name": f"x-{cls.name}"})

    def hook(kind):
        def register():
            return list(copies(kind))

        register.__name__ = f"batchwright_register_{kind}"
        return hookimpl(register)

    globals().update({f"batchwright_register_{kind}": hook(kind) for kind in KINDS})
"""
SELECTION = """
[plugins]
disable = ["batchwright"]

[scheduler]
use = "x-unified"
policy = "x-fcfs"
victim = "x-lifo"
preemption = "x-recompute"
predictor = "x-max-tokens"
estimator = "x-linear"

[kv]
manager = "x-paged"
hasher = "x-{hasher}"
eviction = "x-lru"
num_blocks = 10

[executor]
use = "x-torch"

[[gate]]
use = "x-full-need"
"""


def worked_steps() -> dict[str, Any]:
    """The tests of the worked steps, to be collected here once more."""
    path = Path(__file__).with_name("test_worked_steps.py")
    spec = spec_from_file_location("worked_steps_again", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: item for name, item in vars(module).items() if name.startswith("test_w")}


globals().update(worked_steps())


@pytest.fixture
def copies(install_distribution: Any) -> None:
    install_distribution("renamed-defaults", entry_points={"copies": "renamed"}, renamed=COPIES)


@pytest.fixture(params=["sha256", "xxh3-128"])
def bench(make_bench: Any, copies: None, request: Any) -> Any:
    """A bench like that of the worked steps, under the copies."""
    kv = {"manager": "x-paged", "hasher": f"x-{request.param}", "eviction": "x-lru"}
    chosen = {
        "use": "x-unified",
        "policy": "x-fcfs",
        "victim": "x-lifo",
        "preemption": "x-recompute",
        "predictor": "x-max-tokens",
        "estimator": "x-linear",
    }

    def make(**options: Any) -> Any:
        sections = {"gate": [{"use": "full-need"}], **options.pop("sections", {})}
        return make_bench(
            kv={**kv, **options.pop("kv", {})},
            sections={
                **{kind: list(map(renamed, uses)) for kind, uses in sections.items()},
                "plugins": {"disable": ["batchwright"]},
                "executor": {"use": "x-torch"},
            },
            **chosen,
            **options,
        )

    return make


def renamed(use: dict[str, Any]) -> dict[str, Any]:
    """Select the copy, unless it is a component of the test's own."""
    is_own = use["use"] == "hinted"
    return use if is_own else {**use, "use": f"x-{use['use']}"}


@pytest.mark.parametrize("hasher", ["sha256", "xxh3-128"])
def test_copies_are_selected_by_toml(copies: None, tmp_path: Path, hasher: str) -> None:
    path = tmp_path / "renamed.toml"
    path.write_text(SELECTION.format(hasher=hasher))
    scheduler = Assembly(load_config(path), clock=VirtualClock()).scheduler()
    labels = [component.ctx.label for component in scheduler.components]
    assert len(labels) == 9
    assert all("'x-" in label and "renamed-defaults 1.0" in label for label in labels)


def test_no_default_is_left_when_all_are_disabled(copies: None) -> None:
    plugins = PluginManager.discover(disable=["batchwright"])
    names = [registration.name for registration in plugins.registrations()]
    assert names
    assert all(name.startswith("x-") for name in names)
    with pytest.raises(PluginError, match="there is no policy 'fcfs'"):
        plugins.find("policy", "fcfs")

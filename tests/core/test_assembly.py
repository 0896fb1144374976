"""From a configuration to components."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from batchwright import ConfigError, PluginError, Scheduler, VirtualClock
from batchwright.assembly import Assembly, scheduler_from_config
from batchwright.config import Config, load_config
from batchwright.plugin_manager import PluginManager
from batchwright.protocols import AttentionBackend, Gate, ModelInfo, ModelSettings, SchedulingPolicy
from batchwright.testing import make_plugin
from batchwright.testing.executor import ScriptedExecutor


def labels(scheduler: Scheduler) -> list[str]:
    return [component.ctx.label.partition(" (")[0] for component in scheduler.components]


def test_the_empty_configuration() -> None:
    scheduler = Scheduler.from_config()
    assert labels(scheduler) == [
        "hasher 'sha256'",
        "eviction 'lru'",
        "kv 'paged'",
        "estimator 'linear'",
        "policy 'fcfs'",
        "victim 'lifo'",
        "preemption 'recompute'",
        "predictor 'max-tokens'",
        "gate 'full-need'",
    ]
    limits = scheduler.sizes
    assert (limits.max_num_seqs, limits.max_num_batched_tokens, limits.max_model_len) == (
        256,
        2048,
        8192,
    )


@pytest.mark.parametrize(
    ("policy", "victim"), [("fcfs", "victim 'lifo'"), ("priority", "victim 'lowest-priority'")]
)
def test_the_victim_follows_the_policy(policy: str, victim: str) -> None:
    scheduler = Scheduler.from_config({"scheduler": {"policy": policy}})
    assert victim in labels(scheduler)


def test_two_uses_of_one_component_have_their_own_options_and_paths() -> None:
    gates = [{"use": "watermark", "fraction": f} for f in (0.1, 0.2)]
    first, second = Scheduler.from_config({"gate": gates}).components.gates
    assert (first.options.fraction, second.options.fraction) == (0.1, 0.2)
    assert (first.ctx.path, second.ctx.path) == ("gate[0]", "gate[1]")
    assert first.ctx.random.random() != second.ctx.random.random()


def test_streams_of_chance_depend_on_the_seed_alone() -> None:
    def draw(seed: int) -> float:
        config = {"scheduler": {"seed": seed}}
        return Scheduler.from_config(config).components.policy.ctx.random.random()

    assert draw(1) == draw(1) != draw(2)


@pytest.mark.parametrize(
    ("memory", "per_token", "num_blocks"), [("1 MiB", 64, 1024), ("32 KiB", 1024, 2)]
)
def test_memory_becomes_blocks(memory: str, per_token: int, num_blocks: int) -> None:
    model = ModelInfo(name="m", max_model_len=100, vocab_size=9, kv_bytes_per_token=per_token)
    assembly = Assembly(Config.from_dict({"kv": {"memory": memory}}))
    limits = assembly.scheduler(model).limits
    assert (limits.num_blocks, limits.max_model_len) == (num_blocks, 100)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (None, r"kv\.memory: needs a model"),
        (
            ModelInfo(name="m", max_model_len=9, vocab_size=9, kv_bytes_per_token=1 << 20),
            r"kv\.memory: 1 MiB holds 0 blocks of 16,777,216 bytes",
        ),
    ],
)
def test_memory_that_cannot_be_used(model: Any, message: str) -> None:
    assembly = Assembly(Config.from_dict({"kv": {"memory": "1 MiB"}}))
    with pytest.raises(ConfigError, match=message):
        assembly.scheduler(model)


def test_a_model_shorter_than_asked_for_counts() -> None:
    model = ModelInfo(name="m", max_model_len=50, vocab_size=9)
    config = Config.from_dict({"model": {"path": "m", "max_model_len": 80}})
    assert Assembly(config).scheduler(model).limits.max_model_len == 50


def test_a_constructor_that_fails_is_named() -> None:
    class Broken(SchedulingPolicy):
        name = "broken"

        def __init__(self, options: Any, ctx: Any) -> None:
            raise OSError("no disk")

    with pytest.raises(PluginError, match=r"policy 'broken'.*Broken\.__init__.*OSError: no disk"):
        scheduler_from_config(
            {"scheduler": {"policy": "broken"}}, plugins=[make_plugin(policy=[Broken])]
        )


def test_the_scheduler_is_not_there_in_a_constructor() -> None:
    class Early(Gate):
        name = "early"

        def __init__(self, options: Any, ctx: Any) -> None:
            super().__init__(options, ctx)
            ctx.view.num_running  # noqa: B018

    with pytest.raises(PluginError, match=r"use setup\(\), not __init__"):
        scheduler_from_config({"gate": [{"use": "early"}]}, plugins=[make_plugin(gate=[Early])])


def test_paths_of_components_start_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[[observer]]\nuse = "decision-log"\npath = "log.jsonl"\n')
    config = load_config(path)
    scheduler = Assembly(config, plugins=PluginManager.discover(), clock=VirtualClock()).scheduler()
    scheduler.close()
    assert (tmp_path / "log.jsonl").exists()


class Backend(AttentionBackend):
    """Serves everything, says nothing."""

    def unsupported(self, spec):  # type: ignore[no-untyped-def]
        return None

    def allocate(self, spec, num_blocks):  # type: ignore[no-untyped-def]
        raise NotImplementedError

    def begin_step(self, batch):  # type: ignore[no-untyped-def]
        raise NotImplementedError

    def forward(self, call):  # type: ignore[no-untyped-def]
        raise NotImplementedError

    def copy_blocks(self, copies):  # type: ignore[no-untyped-def]
        raise NotImplementedError


class Inspecting(ScriptedExecutor):
    """Knows of its model what it was told of it."""

    name = "inspecting"

    def inspect(self, settings: ModelSettings) -> ModelInfo:
        offered = ", ".join(backend.name for backend in settings.attention)
        size = settings.block_size
        return ModelInfo(name=settings.path, max_model_len=size, vocab_size=0, attention=offered)


def inspected(*backends: tuple[str, int | None], **sections: Any) -> ModelInfo | None:
    offered = [
        type(name, (Backend,), {"name": name, "preference": preference})
        for name, preference in backends
    ]
    plugin = make_plugin(attention=offered, executor=[Inspecting])
    config = Config.from_dict({"executor": {"use": "inspecting"}, **sections})
    disabled = ("batchwright_engine.attention",)
    return Assembly(config, plugins=PluginManager.discover((), disabled, extra=[plugin])).inspect()


def test_attention_is_offered_by_preference() -> None:
    """The best first, ties by name; one without a place only where it is named."""
    backends = (("a", 0), ("b", 7), ("c", None), ("d", 7))
    model = {"path": "m"}
    found = inspected(*backends, model=model, kv={"block_size": 32})
    assert found is not None
    assert (found.name, found.attention, found.max_model_len) == ("m", "b, d, a", 32)
    found = inspected(*backends, model=model, attention={"backend": "c"})
    assert found is not None
    assert found.attention == "c"


def test_nothing_is_inspected_without_a_model() -> None:
    assert inspected(("a", 0)) is None

"""Drift of vLLM: what is not known is handed on, and what is missing is refused at the start."""

from __future__ import annotations

import inspect
from typing import Any

import batchwright_vllm
import pytest
import vllm
from batchwright_vllm import requirements
from batchwright_vllm.requirements import ATTRIBUTES, METHODS, check_members, check_vllm
from batchwright_vllm.scheduler import AsyncScheduler, Scheduler, SyncScheduler
from harness import Bench
from vllm.v1.core.sched.async_scheduler import AsyncScheduler as VllmAsyncScheduler
from vllm.v1.core.sched.request_queue import FCFSRequestQueue
from vllm.v1.core.sched.scheduler import Scheduler as VllmScheduler

from batchwright.exceptions import PluginError


@pytest.mark.parametrize("base", [VllmScheduler, VllmAsyncScheduler])
def test_every_method_that_is_overridden_is_there(base: type[Any]) -> None:
    plugged = SyncScheduler.__mro__[1]
    overridden = {
        name
        for name, value in vars(plugged).items()
        if inspect.isfunction(value) and name not in ("__init__", "_allow", "preempt")
    }
    assert overridden | {"_reserve_prefill_lookahead"} == set(METHODS)
    assert all(callable(getattr(base, name)) for name in METHODS)


def test_arguments_that_are_not_known_are_handed_on() -> None:
    """As in a later vLLM whose methods take more."""
    taken: list[Any] = []

    class Later(VllmScheduler):
        def schedule(self, throttle_prefills: bool = False, more: int = 0) -> Any:
            taken.append((throttle_prefills, more))
            return super().schedule(throttle_prefills)

    class Plugged(SyncScheduler.__mro__[1], Later):  # type: ignore[misc, name-defined]
        pass

    bench = Bench({}, Plugged)
    bench.add("r")
    plan = bench.scheduler.schedule(True, more=3)
    assert (taken, dict(plan.num_scheduled_tokens)) == ([(True, 3)], {"r": 8})


@pytest.mark.parametrize("name", METHODS)
def test_a_renamed_method_is_refused_when_the_scheduler_is_made(name: str) -> None:
    bench = Bench({})
    members = {n: getattr(bench.scheduler, n) for n in (*METHODS, *ATTRIBUTES) if n != name}
    with pytest.raises(PluginError, match=rf"vLLM 0\.32\S* has no {name}.* tested with 0\.32"):
        check_members(type("Drifted", (), {})() if False else _WithMembers(members))


def test_a_third_queue_is_refused() -> None:
    bench = Bench({})
    bench.scheduler.third = FCFSRequestQueue()
    with pytest.raises(PluginError, match=r"has more queues: .*third"):
        check_members(bench.scheduler)


@pytest.mark.parametrize("version", ["0.31.2", "0.33.0"])
def test_another_version_is_refused_unless_it_is_allowed(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr(vllm, "__version__", version)
    with pytest.raises(PluginError, match=rf"vLLM {version} is installed.*0\.32") as caught:
        check_vllm()
    assert requirements.ALLOW_UNTESTED in str(caught.value)
    monkeypatch.setenv(requirements.ALLOW_UNTESTED, "1")
    check_vllm()


def test_the_variant_follows_the_final_configuration() -> None:
    assert batchwright_vllm.Scheduler is Scheduler
    assert issubclass(AsyncScheduler, VllmAsyncScheduler)
    assert not issubclass(SyncScheduler, VllmAsyncScheduler)


class _WithMembers:
    """An object that has some members."""

    def __init__(self, members: dict[str, Any]) -> None:
        vars(self).update(members)

"""Components that are made for another one."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import define, frozen

from batchwright.assembly import scheduler_from_config
from batchwright.clock import VirtualClock
from batchwright.exceptions import ConfigError
from batchwright.option import option
from batchwright.plugin import SchedulingPolicy
from batchwright.protocols import Observer, Subcomponent
from batchwright.testing import Driver, make_plugin, make_request


@define
class Value:
    value: str = ""


@frozen
class InnerOptions:
    size: int = option(1, "A size.")


class Inner(SchedulingPolicy):
    """Serves the last first."""

    name = "inner"
    Data = Value
    Options = InnerOptions

    def key(self, request):
        return -request.arrival_time

    def setup(self):
        raise AssertionError("its host sets it up, or does not")


@frozen
class Options:
    policy: str = option("inner", "Policy that it consists of.")


class Host(Observer):
    """Hosts a policy and a predictor."""

    name = "host"
    Data = Value
    Options = Options
    subcomponents = {"mine": Subcomponent("policy", "policy"), "guess": Subcomponent("predictor")}

    def on_add(self, request):
        self.ctx.data(request).value = "host"
        self.ctx.components["mine"].ctx.data(request).value = "inner"


PLUGIN = make_plugin(policy=[Inner], observer=[Host])


def make_scheduler(**config: Any) -> Any:
    config.setdefault("observer", [{"use": "host"}, {"use": "host"}])
    return scheduler_from_config(config, clock=VirtualClock(), plugins=[PLUGIN])


def hosts_of(scheduler: Any) -> list[Any]:
    return [o for o in scheduler.components.observers if o.name == "host"]


def test_hosted_are_built_with_their_options_and_bound() -> None:
    scheduler = make_scheduler(policy={"inner": {"size": 7}})
    for host in hosts_of(scheduler):
        mine, guess = host.ctx.components["mine"], host.ctx.components["guess"]
        assert mine.options.size == 7
        assert mine.ctx.view is scheduler.view
        assert guess.name == scheduler.components.predictor.name
        assert guess is not scheduler.components.predictor


def test_hosted_have_slots_of_their_own() -> None:
    scheduler = make_scheduler()
    request = make_request("A", 4, 4)
    Driver(scheduler).add(request)
    components = scheduler.components
    slots = [c.ctx.slot for c in (*components, *components.subcomponents(), scheduler)]
    assert sorted(slots) == list(range(len(request.component_data)))
    kept = [data.value for data in request.component_data if isinstance(data, Value)]
    assert kept == ["inner", "host", "inner", "host"]


def test_an_unknown_name_is_told_with_its_option() -> None:
    with pytest.raises(ConfigError, match=r"observer\[0\]\.policy: there is no policy 'iner'"):
        make_scheduler(observer=[{"use": "host", "policy": "iner"}])


def test_a_hosted_predictor_reads_the_truth_only_where_one_is() -> None:
    with pytest.raises(ConfigError, match="which only a simulation knows"):
        make_scheduler(scheduler={"predictor": "oracle"})


def test_context_has_the_configuration() -> None:
    scheduler = make_scheduler(scheduler={"max_num_seqs": 3})
    config = scheduler.components.policy.ctx.config
    assert config.scheduler.max_num_seqs == 3


def test_view_names_who_waits_next() -> None:
    scheduler = make_scheduler()
    Driver(scheduler).add(*(make_request(name, 4, 4) for name in "ABC"))
    assert [request.request_id for request in scheduler.view.next_waiting(2)] == ["A", "B"]
    assert [request.request_id for request in scheduler.view.next_waiting(9)] == ["A", "B", "C"]

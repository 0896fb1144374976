"""Components that a configuration names are checked against what is offered."""

from __future__ import annotations

import pytest
from attrs import frozen

from batchwright.assembly import Assembly
from batchwright.component_checks import check_components
from batchwright.config import Config, Use
from batchwright.exceptions import ConfigError
from batchwright.plugin import Gate, SchedulingPolicy, hookimpl
from batchwright.plugin_manager import PluginManager


@frozen
class Options:
    fraction: float = 0.01


class Share(Gate):
    name = "share"
    Options = Options


class Plain(SchedulingPolicy):
    name = "plain"


class Plugin:
    @hookimpl
    def batchwright_register_gate(self):
        return [Share]

    @hookimpl
    def batchwright_register_policy(self):
        return [Plain]


@pytest.fixture(scope="module")
def plugins() -> PluginManager:
    return PluginManager.discover(extra=[Plugin()])


def test_sound_selection_passes(plugins):
    config = Config.from_dict(
        {
            "scheduler": {"policy": "plain"},
            "gate": [{"use": "share", "fraction": 1}, {"use": "share"}],
        }
    )

    check_components(config, plugins)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (
            {"scheduler": {"policy": "plian"}},
            "scheduler.policy: there is no policy 'plian'. Did you mean 'plain'?",
        ),
        (
            {"gate": [{"use": "share"}, {"use": "shared"}]},
            "gate[1].use: there is no gate 'shared'. Did you mean 'share'?",
        ),
        (
            {"gate": [{"use": "share", "fractoin": 1}]},
            "gate[0].fractoin: unknown option. Did you mean 'fraction'?",
        ),
        (
            {"policy": {"plian": {}}},
            "policy.plian: there is no policy 'plian'. Did you mean 'plain'?",
        ),
        ({"policy": {"plain": {"x": 1}}}, "policy.plain.x: unknown option. Options: none"),
        ({"kv": {"manager": "pagd"}}, "kv.manager: there is no kv 'pagd'."),
    ],
)
def test_wrong_selection_is_refused_with_its_path(plugins, table, expected):
    with pytest.raises(ConfigError) as caught:
        check_components(Config.from_dict(table, source="run.toml"), plugins)

    assert expected in str(caught.value)
    assert caught.value.source == "run.toml"


def test_all_selections_are_checked_at_once(plugins):
    config = Config.from_dict(
        {"scheduler": {"policy": "x"}, "gate": [{"use": "y"}, {"use": "share", "z": 1}]}
    )

    with pytest.raises(ConfigError, match="3 problems"):
        check_components(config, plugins)


def test_tables_of_components_that_nothing_names_are_told(caplog):
    """An option that is set and has no effect is a mistake, or a leftover."""
    tables = {
        "policy": {"fair": {}, "sjf": {"aging": 1.0}, "fcfs": {}},
        "workload": {"poisson": {}},
    }
    shadow = [{"use": "shadow", "policy": "sjf"}]
    Assembly(Config.from_dict({**tables, "observer": shadow}))

    expected = (
        "[policy.fair] has no effect: scheduler.policy = 'fcfs'; to select it, "
        "set scheduler.policy = 'fair'"
    )
    assert caplog.messages == [expected]


def test_component_of_a_list_that_no_option_names_is_in_use():
    """Code adds observers of its own, which have no option in a file."""
    own = Use("observer", "own", "own")
    assert list(Config(observer=(own,)).unselected()) == []

"""The grid of a comparison: every policy with every value, at every rate, with every seed."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Final

import attrs
from attrs import Factory, frozen

from batchwright.assembly import Assembly
from batchwright.config import SELECTORS, Config, load_config
from batchwright.exceptions import ConfigError
from batchwright.plugin_manager import PluginManager
from batchwright.suggest import did_you_mean
from batchwright_lab.comparison.cell import Cell
from batchwright_lab.comparison.policy_choice import PolicyChoice, choose_policies
from batchwright_lab.comparison.variation import Variation, read_variations
from batchwright_lab.workload.chosen_workload import choose_workload, make_workload, pace_of

__all__ = ["Grid", "plan_grid", "read_rates"]

_log = logging.getLogger("batchwright.config")

_POLICY: Final = "policy"
_SCHEDULER: Final = "scheduler"


@frozen
class Grid:
    """The policies, rates, seeds and options that are compared.

    Args:
        policies: Labels; the others are compared with the first.
        variations: Labels of what varies beside.
        rates: Mean arrivals (1/s), ascending; (None,): as the workload says.
        seeds: Of all streams of chance.
        cells: All of them; for each policy and variation, rates in order, seeds within.
        contenders: Pairs of policy and variation that there are cells of: a policy that an
            option does not concern has none with its values.
        values: By label of a variation, the values that vary by their options' paths.
    """

    policies: tuple[str, ...]
    variations: tuple[str, ...]
    rates: tuple[float | None, ...]
    seeds: tuple[int, ...]
    cells: tuple[Cell, ...]
    contenders: tuple[tuple[str, str], ...] = Factory(
        lambda self: tuple(product(self.policies, self.variations)), takes_self=True
    )
    values: Mapping[str, Mapping[str, str]] = Factory(dict)

    @property
    def baseline(self) -> str:
        """The policy that others are compared with."""
        return self.policies[0]


def read_rates(text: str | None) -> tuple[float | None, ...]:
    """Read ``2,4,6``: mean arrivals a second.

    Returns:
        In ascending order; (None,) for None: as the workload says.

    Raises:
        ConfigError: One is no number > 0, or is said twice.
    """
    if text is None:
        return (None,)
    rates = [_rate(piece, text) for piece in text.split(",")]
    if len(set(rates)) < len(rates):
        raise ConfigError("says a rate twice", source=f"--rates {text}")
    return tuple(sorted(rates))


def _rate(piece: str, text: str) -> float:
    try:
        rate = float(piece)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        problem = f"expected numbers > 0 with commas between them, got {piece.strip()!r}"
        raise ConfigError(problem, source=f"--rates {text}")
    return rate


def plan_grid(
    config: Path | None,
    overrides: Sequence[str],
    *,
    policies: Sequence[str],
    vary: Sequence[str],
    workload: str | None,
    rates: str | None,
    num_seeds: int,
    limit: int | None,
    checked: bool,
) -> Grid:
    """Make the cells, and check what can be checked before anything runs.

    Args:
        config: The TOML file.
        overrides: ``key.path=value`` each.
        policies: See ``choose_policies``; none: that of the configuration.
        vary: See ``read_variations``.
        workload: ``NAME``, ``NAME:FILE`` or a file; None: ``simulation.workload``.
        rates: See ``read_rates``.
        num_seeds: Number of seeds, from ``scheduler.seed`` on.
        limit: Requests that are taken in each cell.
        checked: True if every invariant is checked at every step.

    Raises:
        ConfigError: An option, a value that varies, a rate or the workload is wrong.
        PluginError: A component that a cell names cannot be had.
    """
    base = load_config(config, overrides)
    disable, load = base.plugins.disable, base.plugin_paths
    chosen = choose_policies(policies or [base.scheduler.policy], disable, load)
    names = {choice.name for choice in chosen}
    all_rates = read_rates(rates)
    seeds = tuple(range(base.scheduler.seed, base.scheduler.seed + num_seeds))
    cells: list[Cell] = []
    contenders: list[tuple[str, str]] = []
    values: dict[str, Mapping[str, str]] = {}
    idle: list[set[tuple[str, str]]] = []
    for choice, variation in _contenders(chosen, read_variations(vary), base):
        made = load_config(config, [*overrides, *variation.overrides])
        made = choose_workload(_with_policy(made, choice, names), workload)
        _check(made, all_rates)
        cells += _cells(choice, variation, made, all_rates, seeds, limit, checked)
        idle.append({(use.kind, use.name) for use in made.unselected()})
        contenders.append((choice.label, variation.label))
        values[variation.label] = variation.values
    for kind, name in sorted(set.intersection(*idle)):
        _log.warning("[%s.%s] has no effect: no cell selects it", kind, name)
    return Grid(
        tuple(choice.label for choice in chosen),
        tuple(dict.fromkeys(label for _, label in contenders)),
        all_rates,
        seeds,
        tuple(cells),
        tuple(contenders),
        values,
    )


def _contenders(
    chosen: Sequence[PolicyChoice], variations: Sequence[Variation], base: Config
) -> Iterator[tuple[PolicyChoice, Variation]]:
    """Each policy with each combination of the values that concern it.

    Raises:
        ConfigError: An option of a policy concerns none that takes part.
    """
    hosted = {choice: _hosts_policies(choice, base) for choice in chosen}
    _refuse_strangers(chosen, variations, any(hosted.values()))
    for choice in chosen:
        concerns = _concerns(choice, hosted[choice])
        for variation in dict.fromkeys(_only(found, concerns, base) for found in variations):
            yield choice, variation


def _concerns(choice: PolicyChoice, hosts_others: bool) -> Callable[[str], bool]:
    """Make the test of an option's path: can a policy's figures depend on it?"""
    return lambda path: hosts_others or _policy_in(path) in ("", choice.name)


def _only(variation: Variation, concerns: Callable[[str], bool], base: Config) -> Variation:
    """The values that concern a policy, and the scheduler of the variation."""
    selected = variation.values.get(SELECTORS[_SCHEDULER], base.scheduler.use).strip("'\"")
    return variation.only(lambda path: concerns(path) and _scheduler_in(path) in ("", selected))


def _scheduler_in(path: str) -> str:
    """The scheduler whose own option it is; empty if it is no scheduler's own."""
    kind, _, rest = path.partition(".")
    name, _, option = rest.partition(".")
    return name if kind == _SCHEDULER and option else ""


def _policy_in(path: str) -> str:
    """The policy whose option it is; empty if it is no policy's."""
    kind, _, rest = path.partition(".")
    return rest.partition(".")[0] if kind == _POLICY else ""


def _hosts_policies(choice: PolicyChoice, base: Config) -> bool:
    """Return True if a policy is made of other ones, whose options then matter to it."""
    plugins = PluginManager.discover(_paths(base, choice), base.plugins.disable)
    hosted = plugins.find(_POLICY, choice.name).cls.subcomponents.values()
    return any(part.kind == _POLICY for part in hosted)


def _paths(base: Config, choice: PolicyChoice) -> list[Path]:
    return [*base.plugin_paths, *([choice.path] if choice.path is not None else [])]


def _refuse_strangers(
    chosen: Sequence[PolicyChoice], variations: Iterable[Variation], any_hosts: bool
) -> None:
    """Refuse to vary an option of a policy that does not take part.

    Raises:
        ConfigError: One is varied.
    """
    names = [choice.name for choice in chosen]
    for override in dict.fromkeys(o for found in variations for o in found.overrides):
        path = override.partition("=")[0]
        name = _policy_in(path)
        if name and name not in names and not any_hosts:
            problem = f"no policy that takes part is {name!r}.{did_you_mean(name, names)}"
            raise ConfigError(
                f"{problem} They are {', '.join(names)}", path=path, source=f"--vary {override}"
            )


def _with_policy(config: Config, choice: PolicyChoice, names: Iterable[str]) -> Config:
    """Select a policy, and load its file; observers decide nothing, and are left out.

    Args:
        config: The configuration.
        choice: The policy.
        names: Names of all policies that take part. Tables of options of those that this one
            does not know, because their files are not loaded for it, are left out.
    """
    scheduler = attrs.evolve(config.scheduler, policy=choice.name)
    plugins = config.plugins
    if choice.path is not None:
        path = os.path.relpath(choice.path, config.base_path.resolve())
        plugins = attrs.evolve(plugins, load=(*plugins.load, path))
    found = attrs.evolve(config, scheduler=scheduler, plugins=plugins, observer=())
    tables = config.options.get(_POLICY, {})
    if tables.keys() & set(names) - {choice.name}:
        known = PluginManager.discover(found.plugin_paths, plugins.disable).names(_POLICY)
        others = set(names).difference(known)
        kept = {name: table for name, table in tables.items() if name not in others}
        found = attrs.evolve(found, options={**config.options, _POLICY: kept})
    return found


def _check(config: Config, rates: Sequence[float | None]) -> None:
    """Have what is wrong with every cell alike said at once.

    Raises:
        ConfigError: It is.
    """
    workload = make_workload(Assembly(config, hints=False))
    next(iter(workload.arrivals()), None)
    for rate in rates:
        pace_of(workload, rate)


def _cells(
    choice: PolicyChoice,
    variation: Variation,
    config: Config,
    rates: Sequence[float | None],
    seeds: Sequence[int],
    limit: int | None,
    checked: bool,
) -> Iterator[Cell]:
    for rate in rates:
        for seed in seeds:
            seeded = attrs.evolve(config, scheduler=attrs.evolve(config.scheduler, seed=seed))
            yield Cell(choice.label, variation.label, rate, seed, limit, checked, seeded)

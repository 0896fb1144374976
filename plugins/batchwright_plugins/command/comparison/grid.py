"""The grid of a comparison: every policy with every value, at every rate, with every seed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
from attrs import frozen

from batchwright.assembly import Assembly
from batchwright.config import Config, load_config
from batchwright.exceptions import ConfigError
from batchwright_plugins.command.chosen_workload import choose_workload, make_workload, pace_of
from batchwright_plugins.command.comparison.cell import Cell
from batchwright_plugins.command.comparison.policy_choice import PolicyChoice, choose_policies
from batchwright_plugins.command.comparison.variation import Variation, read_variations

__all__ = ["Grid", "plan_grid", "read_rates"]


@frozen
class Grid:
    """What is compared.

    Args:
        policies: Labels; the others are compared with the first.
        variations: Labels of what varies beside.
        rates: Mean arrivals (1/s), ascending; (None,): as the workload says.
        seeds: Of all streams of chance.
        cells: All of them; for each policy and variation, rates in order, seeds within.
    """

    policies: tuple[str, ...]
    variations: tuple[str, ...]
    rates: tuple[float | None, ...]
    seeds: tuple[int, ...]
    cells: tuple[Cell, ...]

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
        num_seeds: How many, from ``scheduler.seed`` on.
        limit: Requests that are taken in each cell.
        checked: Whether every invariant is checked at every step.

    Raises:
        ConfigError: An option, a value that varies, a rate or the workload is wrong.
        PluginError: A component that a cell names cannot be had.
    """
    base = load_config(config, overrides)
    chosen = choose_policies(policies or [base.scheduler.policy], base.plugins.disable)
    variations, all_rates = read_variations(vary), read_rates(rates)
    seeds = tuple(range(base.scheduler.seed, base.scheduler.seed + num_seeds))
    cells: list[Cell] = []
    for choice in chosen:
        for variation in variations:
            made = load_config(config, [*overrides, *variation.overrides])
            made = choose_workload(_with_policy(made, choice), workload)
            _check(made, all_rates)
            cells += _cells(choice, variation, made, all_rates, seeds, limit, checked)
    return Grid(
        tuple(choice.label for choice in chosen),
        tuple(variation.label for variation in variations),
        all_rates,
        seeds,
        tuple(cells),
    )


def _with_policy(config: Config, choice: PolicyChoice) -> Config:
    """Select a policy, and load its file; observers decide nothing, and are left out."""
    scheduler = attrs.evolve(config.scheduler, policy=choice.name)
    plugins = config.plugins
    if choice.path is not None:
        path = os.path.relpath(choice.path, config.base_path.resolve())
        plugins = attrs.evolve(plugins, load=(*plugins.load, path))
    return attrs.evolve(config, scheduler=scheduler, plugins=plugins, observer=())


def _check(config: Config, rates: Sequence[float | None]) -> None:
    """Have what is wrong with every cell alike said at once.

    Raises:
        ConfigError: It is.
    """
    workload = make_workload(Assembly(config))
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

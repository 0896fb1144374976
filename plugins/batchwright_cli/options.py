"""Options that several commands share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

Callback = TypeVar("Callback", bound=Callable[..., Any])


def override_option(callback: Callback) -> Callback:
    """Add ``-o key.path=value``, any number of times; passed as ``overrides``."""
    return click.option(
        "-o",
        "--override",
        "overrides",
        multiple=True,
        metavar="KEY.PATH=VALUE",
        help="Set one value of the configuration, e.g. scheduler.max_num_seqs=8 or "
        "gate[0].use=NAME; may be repeated.",
    )(callback)


class PositiveNumber(click.FloatRange):
    """A number over 0, neither infinite nor NaN (which is in every range, as click sees it)."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no finite number.", param, ctx)
        return number

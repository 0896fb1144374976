"""Options that several commands share."""

from __future__ import annotations

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

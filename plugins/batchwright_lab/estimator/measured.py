"""A step time that was measured on an engine of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attrs import frozen

from batchwright.exceptions import ConfigError
from batchwright.option import option
from batchwright_lab.estimator.linear import Linear
from batchwright_lab.estimator.profiles import read_coefficients

__all__ = ["Measured"]


@frozen
class Options:
    """Options of measured step times."""

    path: str = option(
        "measured.toml", "Output file of batchwright calibrate, relative to the TOML file."
    )
    overhead: float = option(0.0, "Time of a step beyond the measured one.", unit="seconds", ge=0)


class Measured(Linear):
    """The formula of ``linear`` with coefficients from ``batchwright calibrate CONFIG``.

    They are those of the machine, the model and the configuration that were measured.
    """

    name = "measured"
    Options = Options

    def coefficients(self) -> dict[str, Any]:
        path = f"{self.ctx.path}.path"
        self.file = file = self.ctx.folder / Path(self.options.path).expanduser()
        if not file.exists():
            problem = f"cannot be read: there is no {file}; `batchwright calibrate` writes one"
            raise ConfigError(problem, path=path)
        return read_coefficients(file, path)

"""Coefficients of step times, from what an engine took."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
import tomlkit
from attrs import frozen

from batchwright.exceptions import ConfigError
from batchwright.sampling_params import SamplingParams
from batchwright_lab.calibration.fitting import fit
from batchwright_lab.calibration.step_times import step_times
from batchwright_lab.configuration.rendering import render_table
from batchwright_lab.recording.log_file import follow_log

if TYPE_CHECKING:
    from batchwright.config import Config
    from batchwright_engine.engine import Engine

__all__ = ["Calibration", "calibrate", "measure"]

COEFFICIENTS: Final = ("base", "per_token", "per_context_token", "per_attention", "per_request")
_LENGTHS: Final = (4, 16, 48, 96, 160, 256)
_WAVES: Final = (1, 2, 6, 12)
_OUTPUT: Final = 24


@frozen
class Calibration:
    """Coefficients with what they were fitted to.

    Args:
        coefficients: Of the estimator ``linear``, in the order of ``COEFFICIENTS``.
        num_steps: Steps it was fitted to.
        error: Median relative error of a step, over those steps.
        seconds: Time of all of these steps.
        predicted: Their predicted time.
    """

    coefficients: tuple[float, ...]
    num_steps: int
    error: float
    seconds: float
    predicted: float

    def as_toml(self) -> str:
        """Return the file that the estimator ``measured`` reads."""
        said = (
            f"Fitted to {self.num_steps} steps; median relative error of a step {self.error:.1%}."
        )
        return tomlkit.dumps(tomlkit.document().add(tomlkit.comment(said))) + render_table(
            dict(self._named())
        )

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield the lines that are printed, in two columns."""
        yield "steps", f"{self.num_steps:,} in {self.seconds:.2f} s"
        for name, value in self._named():
            yield name, f"{value:.4g} s"
        yield "median error of a step", f"{self.error:.1%}"
        yield "error of all together", f"{self.predicted / self.seconds - 1:+.1%}"

    def _named(self) -> Iterator[tuple[str, float]]:
        return zip(COEFFICIENTS, self.coefficients, strict=True)


def calibrate(log: Path) -> Calibration:
    """Fit coefficients to a decision log.

    Raises:
        ConfigError: It is none, or holds too few steps.
    """
    try:
        measured = list(step_times(follow_log(log)))
        rows = [
            (
                1.0,
                float(shape.num_tokens),
                float(shape.decode_context),
                shape.prefill_attention,
                float(shape.num_requests),
            )
            for shape, _ in measured
        ]
        times = [seconds for _, seconds in measured]
        found, kept = fit(rows, times)
    except (ArithmeticError, ValueError) as error:
        raise ConfigError(str(error), source=str(log)) from error
    times = [times[i] for i in kept]
    predicted = [sum(c * x for c, x in zip(found, rows[i], strict=True)) for i in kept]
    errors = [abs(p / t - 1) for p, t in zip(predicted, times, strict=True)]
    median = float(np.median(errors))
    return Calibration(tuple(found), len(kept), median, sum(times), sum(predicted))


def measure(config: Config) -> Calibration:
    """Run an engine on prompts made for this, and fit coefficients to it.

    Raises:
        ConfigError: The configuration cannot be used.
        ModelError: Its model cannot be loaded.
    """
    from batchwright.config import Use
    from batchwright_engine.assembly import EngineAssembly

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "decisions.jsonl"
        use = Use("observer", "decision-log", "observer.decision-log", options={"path": str(log)})
        kept = tuple(o for o in config.observer if o.name != use.name)
        engine = EngineAssembly(attrs.evolve(config, observer=(*kept, use))).engine()
        try:
            _exercise(engine)
        finally:
            engine.close()
        return calibrate(log)


def _exercise(engine: Engine) -> None:
    """Answer prompts of many lengths, more and more of them at a time."""
    chance = random.Random(0)
    limits, vocab_size = engine.scheduler.sizes, engine.model.vocab_size
    room = min(
        limits.max_model_len, engine.scheduler.kv_manager.num_usable_blocks * limits.block_size
    )
    params = SamplingParams(max_tokens=_OUTPUT, ignore_eos=True)
    for wave in (1, *_WAVES):  # the first one warms up, and is fitted like the others
        for length in _LENGTHS[: 2 if wave == 1 else None]:
            for _ in range(min(wave, limits.max_num_seqs)):
                size = max(1, min(length, room - _OUTPUT - 1))
                engine.add([chance.randrange(vocab_size) for _ in range(size)], params)
            for _ in range(_OUTPUT // 2):
                engine.step()
        while engine.has_unfinished:
            engine.step()

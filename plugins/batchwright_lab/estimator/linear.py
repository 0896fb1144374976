"""A step time that is linear in what the step computes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from attrs import frozen

from batchwright.exceptions import ConfigError
from batchwright.option import option
from batchwright.protocols import Estimator
from batchwright.protocols.estimator import StepShape
from batchwright_lab.estimator.profiles import find_profile, read_coefficients

if TYPE_CHECKING:
    from batchwright.context import Context

__all__ = ["Linear"]

_COEFFICIENTS: Final = ("base", "per_token", "per_context_token", "per_attention", "per_request")
_PROFILES: Final = "the profile's"
_MOST_SECONDS: Final = 3600.0
_LONGEST: Final = 1 << 24
_MOST_CORRECTIONS: Final = 64


def _coefficient(text: str, unit: str) -> Any:
    return option(None, text, unit=unit, ge=0, default_text=_PROFILES)


@frozen
class Options:
    """Options of the linear estimator."""

    profile: str = option("rtxpro6000-llama3.1-8b", "Device and model of the coefficients.")
    base: float | None = _coefficient("Every step.", "seconds")
    per_token: float | None = _coefficient("Each token that is computed.", "seconds")
    per_context_token: float | None = _coefficient(
        "Each token of context of each decode.", "seconds"
    )
    per_attention: float | None = _coefficient("Each pair of query and key in prefills.", "seconds")
    per_request: float | None = option(
        None,
        "Time of each computed request.",
        unit="seconds",
        ge=0,
        default_text="the profile's, or 0",
    )
    overhead: float = option(
        0.0, "Time of planning and all other fixed work of a step.", unit="seconds", ge=0
    )


class Linear(Estimator):
    """``c0 + ct * tokens + cc * context + cp * attention + cr * requests``, in seconds.

    ``context`` is that of all decodes, summed; ``attention`` is ``q * (kv + q / 2)``, summed
    over prefills of q tokens behind a context of kv; c0 is ``base + overhead``. Coefficients
    come from a profile, and each can be set. One line through small and large batches of
    prefill and decode is some 15 % off on mixed ones; ``table`` is closer.
    """

    name = "linear"
    Options: ClassVar[type] = Options

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        self.file: Path | None = None
        found = self.coefficients()
        self._base = self._coefficient(found, "base") + float(options.overhead)
        self._token = self._coefficient(found, "per_token")
        self._context = self._coefficient(found, "per_context_token")
        self._attention = self._coefficient(found, "per_attention")
        self._request = self._coefficient(found, "per_request")
        if self._base + self._token + self._request <= 0:
            source = str(self.file or "")
            problem = "no time passes in a step without context"
            raise ConfigError(problem, path=f"{ctx.path}.base", source=source)

    def coefficients(self) -> dict[str, Any]:
        """Those that are given, and what the profile says of the others, by name.

        Raises:
            ConfigError: The profile cannot be read.
        """
        path = f"{self.ctx.path}.profile"
        given = {name: getattr(self.options, name) for name in _COEFFICIENTS}
        found = {name: value for name, value in given.items() if value is not None}
        if len(found) == len(given):
            return found
        self.file = find_profile(self.options.profile, self.ctx.folder, path) / "linear.toml"
        return {"per_request": 0.0, **read_coefficients(self.file, path), **found}

    def _coefficient(self, found: dict[str, Any], name: str) -> float:
        value: Any = found.get(name)
        is_number = isinstance(value, float | int) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= _MOST_SECONDS:
            problem = f"expected {name}, a number of seconds >= 0 and <= {_MOST_SECONDS:g}"
            given = getattr(self.options, name, None) is not None
            source = "" if given else str(self.file)
            raise ConfigError(f"{problem}, got {_short(value)}", path=self.ctx.path, source=source)
        return float(value)

    def step_time(self, shape: StepShape) -> float:
        num_tokens = shape.num_decodes + shape.num_prefill_tokens
        num_requests = shape.num_decodes + shape.num_prefills
        fixed = self._base + self._token * num_tokens + self._request * num_requests
        attention = self._attention * shape.prefill_attention
        return fixed + attention + self._context * shape.decode_context

    def max_tokens(self, deadline: float, shape: StepShape, context: int = 0) -> int:
        left = deadline - self.step_time(shape) - self._request
        per_token = self._token + self._attention * context
        half = self._attention / 2
        if left < 0 or not (per_token or half):
            return super().max_tokens(deadline, shape, context)
        # left = per_token * q + half * q**2, the positive root
        root = 2 * left / (per_token + math.sqrt(per_token * per_token + 4 * half * left))
        return self._settle(int(min(root, _LONGEST)), deadline, shape, context)

    def _settle(self, guess: int, deadline: float, shape: StepShape, context: int) -> int:
        """Correct what rounding may have done to a guess; where it did much, search anew."""
        for _ in range(_MOST_CORRECTIONS):
            if self.step_time(shape.with_prefill(guess + 1, context)) <= deadline:
                guess += 1
            elif guess and self.step_time(shape.with_prefill(guess, context)) > deadline:
                guess -= 1
            else:
                return guess
        return super().max_tokens(deadline, shape, context)

    def decode_times(self, num_decodes: int, context: int) -> Iterator[float]:
        # The same operations on the same numbers as in step_time, in its order.
        fixed = self._base + self._token * num_decodes + self._request * num_decodes
        per_token = self._context
        while True:
            yield fixed + per_token * context
            context += num_decodes


def _short(value: Any) -> str:
    text = "a number" if isinstance(value, int) and abs(value) > 1 << 64 else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."

"""Latency targets by class of service."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

from attrs import Factory, frozen

from batchwright.exceptions import ConfigError

__all__ = ["Targets", "read_targets"]

_TARGET: Final = re.compile(r"(?:(?P<slo>.+):)?(?P<measure>[^:=]+)=(?P<seconds>.+)")
_MEASURES: Final = ("ttft", "tpot", "e2e")


@frozen
class Targets:
    """Most seconds that a request's latencies may take, by class.

    Args:
        by_class: By ``slo_class``, and None for all requests, most seconds by latency.
    """

    by_class: Mapping[str | None, Mapping[str, float]] = Factory(dict)

    def __bool__(self) -> bool:
        return bool(self.by_class)

    def of(self, slo_class: str | None) -> dict[str, float]:
        """Targets of a class: its own, and those of all where it has none."""
        return {**self.by_class.get(None, {}), **self.by_class.get(slo_class, {})}

    def are_met(self, slo_class: str | None, latencies: Mapping[str, float | None]) -> bool:
        """Return True if a request meets its targets; one without a second token has no TPOT."""
        return all(
            value is None or value <= self.of(slo_class).get(name, math.inf)
            for name, value in latencies.items()
        )

    def __str__(self) -> str:
        return "; ".join(
            f"{'all requests' if name is None else name}: "
            + ", ".join(f"{measure.upper()} ≤ {most:g} s" for measure, most in wanted.items())
            for name, wanted in self.by_class.items()
        )


def read_targets(texts: Sequence[str]) -> Targets:
    """Read ``ttft=1.0``, ``tpot=0.05``, ``e2e=30``, each with ``CLASS:`` before it or not.

    Raises:
        ConfigError: One has another form, or is said twice.
    """
    by_class: dict[str | None, dict[str, float]] = {}
    for text in texts:
        match = _TARGET.fullmatch(text.strip())
        seconds = _seconds(match["seconds"]) if match else None
        if match is None or match["measure"] not in _MEASURES or seconds is None:
            expected = "expected [CLASS:]ttft=SECONDS, tpot=SECONDS or e2e=SECONDS"
            raise ConfigError(expected, source=f"--target {text}")
        wanted = by_class.setdefault(match["slo"], {})
        if match["measure"] in wanted:
            raise ConfigError("is said twice", source=f"--target {text}")
        wanted[match["measure"]] = seconds
    return Targets(by_class)


def _seconds(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < math.inf else None

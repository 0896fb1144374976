"""Facts of a comparison that its report says beside those of the cells."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from batchwright_lab.comparison.targets import Targets

__all__ = ["REPORT", "Setup"]

REPORT: Final = "report.html"


@frozen
class Setup:
    """Choices of a comparison that its cells do not say.

    Args:
        command: The command line.
        seeds: Of all streams of chance.
        targets: Latency targets.
        starved_after: Seconds for which a request may be passed over.
        warmup: Requests that arrive before it (seconds) are left out of the figures.
    """

    command: str
    seeds: tuple[int, ...]
    targets: Targets
    starved_after: float
    warmup: float = 0.0

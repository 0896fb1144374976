"""Measures of a cell: names, units, the better direction."""

from __future__ import annotations

from typing import Final, Literal

from attrs import frozen

__all__ = ["MEASURES", "RANKING", "Measure"]


@frozen
class Measure:
    """One figure.

    Args:
        key: Its name in files.
        name: Its name for people.
        unit: ``s``, ``1/s``, ``tokens/s``, ``share`` (of 1), or a noun that is counted.
        better: Which of two values is better; None: it depends.
        meaning: Its meaning, in a noun phrase.
    """

    key: str
    name: str
    unit: str
    better: Literal["less", "more"] | None
    meaning: str

    @property
    def by_ratio(self) -> bool:
        """True if two values are compared by their ratio; else by their difference."""
        return self.unit in ("s", "tokens/s") or self.key == "requests_per_s"

    def is_better(self, one: float, other: float) -> bool:
        """Return True if one value beats another."""
        return one > other if self.better == "more" else one < other


_LATENCIES: Final = {
    "ttft": ("TTFT", "from arrival to the first output token"),
    "tpot": ("TPOT", "mean time between the output tokens of a request after its first"),
    "e2e": ("E2E", "from arrival to the end"),
}
_STATISTICS: Final = {"mean": "mean", "p50": "p50", "p90": "p90", "p99": "p99"}

_ALL: Final = (
    *(
        Measure(f"{key}_{statistic}", f"{name} {word}", "s", "less", f"{meaning}, {word}")
        for key, (name, meaning) in _LATENCIES.items()
        for statistic, word in _STATISTICS.items()
    ),
    Measure(
        "attainment",
        "in time",
        "share",
        "more",
        "requests that ended by themselves and met all targets of their class, of all",
    ),
    Measure("goodput", "goodput", "1/s", "more", "requests in time, by duration"),
    Measure("requests_per_s", "throughput", "1/s", "more", "ended requests, by duration"),
    Measure(
        "output_tokens_per_s", "output", "tokens/s", "more", "output tokens, by duration"
    ),
    Measure("hit_ratio", "prefix hits", "share", "more", "prompt tokens found in the cache"),
    Measure(
        "recompute_tax", "recompute tax", "share", "less", "recomputed tokens of all computed ones"
    ),
    Measure("preemptions", "preemptions", "times", "less", "requests that lost their KV"),
    Measure(
        "displacements", "displacements", "times", None, "preemptions by the policy"
    ),
    Measure("kv_peak", "KV peak", "share", None, "blocks in use after planning, at most"),
    Measure("jain", "Jain index", "share", "more", "of the clients' service rates in contention"),
    Measure(
        "passed_over_max",
        "longest passed over",
        "s",
        "less",
        "time from the first admission of one that came later to the own one, longest",
    ),
    Measure("starved", "starved", "requests", "less", "passed over for longer than the limit"),
    Measure("arrived", "arrived", "requests", None, "all requests"),
    Measure("ended", "ended", "requests", "more", "with a stop token or at their length"),
    Measure("refused", "refused", "requests", None, "never added"),
    Measure("failed", "failed", "requests", "less", "ended by an error or aborted"),
    Measure("unfinished", "unfinished", "requests", None, "still there when it was stopped"),
    Measure("duration", "duration", "s", None, "from the first arrival to the last end"),
)  # fmt: skip

MEASURES: Final = {measure.key: measure for measure in _ALL}
_NOT_RANKED: Final = ("times", "requests")
RANKING: Final = tuple(
    m.key for m in _ALL if m.better and m.unit not in _NOT_RANKED and m.key != "passed_over_max"
)
"""Measures that may rank policies."""

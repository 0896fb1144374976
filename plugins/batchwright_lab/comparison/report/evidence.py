"""The charts of a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from attrs import frozen

from batchwright_lab.comparison.chart.dot_chart import Dot, DotChart
from batchwright_lab.comparison.chart.line_chart import Line, LineChart
from batchwright_lab.comparison.measure import MEASURES, Measure
from batchwright_lab.comparison.summary import Spread
from batchwright_lab.comparison.wording import spread_range, value

if TYPE_CHECKING:
    from batchwright_lab.comparison.outcome import Outcome
    from batchwright_lab.comparison.summary import Contender, Summary

__all__ = ["Chart", "Evidence"]

Chart = LineChart | DotChart

LATENCY: Final = ("ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99", "e2e_mean", "e2e_p99")
SERVICE: Final = (
    "attainment", "goodput", "output_tokens_per_s", "jain", "passed_over_max",
    "preemptions", "displacements", "recompute_tax", "hit_ratio", "kv_peak",
)  # fmt: skip
_MOST_POINTS: Final = 240
_MOST_CLIENTS: Final = 6
_NUM_HIGHLIGHTS: Final = 4
_BY_CLIENT: Final = "ttft_p99"
_NAMES: Final = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "E2E"}
_AXIS_UNITS: Final = {"1/s": "requests/s", "tokens/s": "tokens/s"}


@frozen
class Evidence:
    """Charts of all policies with the same values of what varies.

    Args:
        summary: All of it.
        variation: Label of the values; empty if nothing varies.
        contenders: The policies with these values that have any figures, with their styles.
    """

    summary: Summary
    variation: str
    contenders: tuple[tuple[int, Contender], ...]

    @classmethod
    def of(cls, summary: Summary) -> list[Evidence]:
        """The evidence for each set of values.

        A policy that some of the values do not concern stands beside all that differ by them.
        """
        styles = {
            name: i for i, name in enumerate(dict.fromkeys(c.policy for c in summary.contenders))
        }
        found = []
        for name in _fullest(dict.fromkeys(c.variation for c in summary.contenders)):
            group = [
                (styles[contender.policy], contender)
                for contender in summary.contenders
                if contender.spreads and _values(contender.variation) <= _values(name)
            ]
            if group:
                found.append(cls(summary, name, tuple(group)))
        return found

    def highlights(self) -> list[Chart]:
        """The few charts that say most."""
        ranking = self.summary.measure.key
        keys = dict.fromkeys((ranking, "ttft_p99", "e2e_mean", "jain", "tpot_p99"))
        return self._charts(keys)[:_NUM_HIGHLIGHTS]

    def latency(self) -> list[Chart]:
        """Latencies against rate."""
        return self._charts(LATENCY)

    def service(self) -> list[Chart]:
        """Throughput, fairness, memory against rate; what is always nothing is left out."""
        return self._charts(SERVICE)

    def distributions(self) -> list[Chart]:
        """Latencies of all requests at the highest rate, all seeds together."""
        charts: list[Chart] = []
        for key, name in _NAMES.items():
            factor, unit = _scale(MEASURES[f"{key}_mean"], self._longest(key))
            lines = list(self._distribution(key, factor))
            title, x_name = f"{name}: share of requests, %", f"{name}, {unit}"
            if lines:
                charts.append(LineChart(title, x_name, lines, log_x=True, y_top=100.0))
        return charts

    def by_client(self) -> list[Chart]:
        """TTFT, p99, of the clients with most requests at the highest rate, on equal axes."""
        measure = MEASURES[_BY_CLIENT]
        clients = self._busiest()
        spreads = {
            client: [(s, c, spread) for s, c in self.contenders if (spread := self._of(c, client))]
            for client in clients
        }
        most = max((s.most for found in spreads.values() for _, _, s in found), default=0.0)
        factor, unit = _scale(measure, most)
        return [
            DotChart(
                f"{client or '(no client)'}: {measure.name}",
                unit,
                [_dot(style, c, measure, spread, factor) for style, c, spread in found],
                factor * most,
            )
            for client, found in spreads.items()
            if found
        ]

    def _busiest(self) -> list[str]:
        for _, contender in self.contenders:
            for cell in self._cells_at_top(contender):
                names = sorted(cell.clients, key=lambda name: -cell.clients[name].requests)
                return names[:_MOST_CLIENTS]
        return []

    def _of(self, contender: Contender, client: str) -> Spread | None:
        cells = (c for c in self._cells_at_top(contender) if client in c.clients)
        return Spread.of(cell.clients[client].figures[_BY_CLIENT] for cell in cells)

    def _longest(self, key: str) -> float:
        cells = (cell for _, c in self.contenders for cell in self._cells_at_top(c))
        return max((cell.latencies[key][-1] for cell in cells if cell.latencies[key]), default=0.0)

    def over_time(self) -> list[Chart]:
        """Queue and KV at the highest rate, with the first seed."""
        shown = (("waiting", "Requests waiting", 1), ("kv", "KV blocks in use, %", 100),
                 ("running", "Requests running", 1))  # fmt: skip
        return [
            LineChart(name, "time, s", lines, y_top=100.0 if key == "kv" else None)
            for key, name, factor in shown
            if (lines := list(self._over_time(key, factor)))
        ]

    def _charts(self, keys: Iterable[str]) -> list[Chart]:
        charts = (self._chart(MEASURES[key]) for key in keys)
        return [chart for chart in charts if chart is not None]

    def _chart(self, measure: Measure) -> Chart | None:
        spreads = [
            (style, contender, contender.at(rate, measure.key))
            for style, contender in self.contenders
            for rate in self.summary.rates
        ]
        found = [(style, contender, spread) for style, contender, spread in spreads if spread]
        if not any(spread.most for _, _, spread in found):
            return None
        factor, unit = _scale(measure, max(spread.most for _, _, spread in found))
        name = _capital(f"{measure.name}, {unit}" if unit else measure.name)
        if len(self.summary.rates) > 1:
            lines = [self._line(style, c, measure, factor) for style, c in self.contenders]
            return LineChart(
                name,
                "arrival rate, requests/s",
                [line for line in lines if line.points],
                y_may_be_log=measure.unit == "s",
                x_ticks=[rate for rate in self.summary.rates if rate is not None],
            )
        dots = [_dot(style, c, measure, s, factor) for style, c, s in found]
        return DotChart(_capital(measure.name), unit or measure.name, dots)

    def _line(self, style: int, contender: Contender, measure: Measure, factor: float) -> Line:
        found = [
            (rate, spread)
            for rate in self.summary.rates
            if rate is not None and (spread := contender.at(rate, measure.key)) is not None
        ]
        return Line(
            contender.policy,
            style,
            [(rate, factor * spread.mean) for rate, spread in found],
            band=[(factor * spread.least, factor * spread.most) for _, spread in found]
            if self.summary.seeds_differ
            else (),
            notes=[f"{rate:g} requests/s: {_in_words(measure, spread)}" for rate, spread in found],
        )

    def _distribution(self, key: str, factor: float) -> Iterator[Line]:
        for style, contender in self.contenders:
            cells = self._cells_at_top(contender)
            values = sorted(factor * v for cell in cells for v in cell.latencies[key] if v > 0)
            if values:
                yield Line(contender.policy, style, _cdf(values), is_step=True)

    def _over_time(self, key: str, factor: float) -> Iterator[Line]:
        for style, contender in self.contenders:
            for cell in self._cells_at_top(contender)[:1]:
                pairs = zip(cell.series["time"], cell.series[key], strict=True)
                points = [(time, factor * number) for time, number in pairs]
                yield Line(contender.policy, style, points, is_step=key != "kv")

    def _cells_at_top(self, contender: Contender) -> list[Outcome]:
        rate = self.summary.top_rate
        return [cell for cell in contender.cells if cell.rate == rate and not cell.fault]


def _values(variation: str) -> set[str]:
    return set(variation.split(", ")) if variation else set()


def _fullest(variations: Iterable[str]) -> list[str]:
    """Those that are no part of another one."""
    names = list(variations)
    return [n for n in names if not any(_values(n) < _values(other) for other in names)]


def _scale(measure: Measure, most: float) -> tuple[float, str]:
    """What values are multiplied by on an axis, and the unit that they have then."""
    if measure.unit == "s":
        return (1000.0, "ms") if most < 1 else (1.0, "s")
    if measure.unit == "share":
        return (1.0, "") if measure.key == "jain" else (100.0, "%")
    return 1.0, _AXIS_UNITS.get(measure.unit, "" if measure.unit == "times" else measure.unit)


def _dot(style: int, contender: Contender, measure: Measure, spread: Spread, factor: float) -> Dot:
    return Dot(
        contender.policy,
        style,
        factor * spread.mean,
        factor * spread.least,
        factor * spread.most,
        f"{contender.policy}: {_in_words(measure, spread)}",
    )


def _in_words(measure: Measure, spread: Spread) -> str:
    spread_text = spread_range(measure, spread)
    mean = value(measure, spread.mean)
    return f"{mean} ({spread_text})" if spread_text else mean


def _cdf(ordered: Sequence[float]) -> list[tuple[float, float]]:
    """Some points of a distribution: value, and percent of values up to it."""
    count = len(ordered)
    num_points = min(count, _MOST_POINTS)
    ranks = dict.fromkeys(
        round(i * (count - 1) / max(1, num_points - 1)) for i in range(num_points)
    )
    return [(ordered[rank], 100 * (rank + 1) / count) for rank in ranks]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]

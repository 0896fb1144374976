"""The charts of a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from attrs import frozen

from batchwright_lab.comparison.chart.dot_chart import DotChart
from batchwright_lab.comparison.chart.line_chart import Line, LineChart
from batchwright_lab.comparison.measure import MEASURES, Measure
from batchwright_lab.comparison.report.figures import (
    LATENCY,
    NUM_HIGHLIGHTS,
    SERVICE,
    Chart,
    axis_of,
    dot_of,
    highlights,
    in_words,
    name_of,
)
from batchwright_lab.comparison.summary import Spread

if TYPE_CHECKING:
    from batchwright_lab.comparison.outcome import Outcome
    from batchwright_lab.comparison.summary import Contender, Summary

__all__ = ["Evidence"]

_MOST_CLIENTS: Final = 6
_BY_CLIENT: Final = "ttft_p99"
_NAMES: Final = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "E2E"}
_MOST_POINTS: Final = 240
"""Points of a line at most."""
_MOST_OF_A_PAGE: Final = 40_000
"""Points of all such lines of a page at most: a megabyte."""
_LINES_OF_A_POLICY: Final = 6


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
        found = []
        for name, values in _fullest(summary).items():
            group = [
                (summary.styles[contender.policy], contender)
                for contender in summary.contenders
                if contender.spreads
                and summary.values.get(contender.variation, {}).items() <= values.items()
            ]
            if group:
                found.append(cls(summary, name, tuple(group)))
        return found

    def highlights(self) -> list[Chart]:
        """The few charts that say most."""
        return self._charts(highlights(self.summary))[:NUM_HIGHLIGHTS]

    @property
    def legend(self) -> list[tuple[int, str]]:
        """Looks and names of the policies."""
        return [(style, contender.policy) for style, contender in self.contenders]

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
            factor, unit = axis_of(MEASURES[f"{key}_mean"], self._longest(key))
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
        factor, unit = axis_of(measure, most)
        return [
            DotChart(
                f"{client or '(no client)'}: {measure.name}",
                unit,
                [dot_of(c.policy, style, measure, spread, factor) for style, c, spread in found],
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
        factor, unit = axis_of(measure, max(spread.most for _, _, spread in found))
        if len(self.summary.rates) > 1:
            lines = [self._line(style, c, measure, factor) for style, c in self.contenders]
            return LineChart(
                name_of(measure, unit),
                "arrival rate, requests/s",
                [line for line in lines if line.points],
                y_may_be_log=measure.unit == "s",
                x_ticks=[rate for rate in self.summary.rates if rate is not None],
            )
        dots = [dot_of(c.policy, style, measure, s, factor) for style, c, s in found]
        return DotChart(name_of(measure, ""), unit or measure.name, dots)

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
            notes=[in_words(measure, spread) for _, spread in found],
        )

    def _distribution(self, key: str, factor: float) -> Iterator[Line]:
        for style, contender in self.contenders:
            cells = self._cells_at_top(contender)
            values = sorted(factor * v for cell in cells for v in cell.latencies[key] if v > 0)
            if values:
                yield Line(contender.policy, style, _cdf(values, self._most_points), is_step=True)

    def _over_time(self, key: str, factor: float) -> Iterator[Line]:
        for style, contender in self.contenders:
            for cell in self._cells_at_top(contender)[:1]:
                pairs = zip(cell.series["time"], cell.series[key], strict=True)
                points = [(time, factor * number) for time, number in pairs]
                points = [points[i] for i in _some_of(len(points), self._most_points)]
                yield Line(contender.policy, style, points, is_step=key != "kv")

    @property
    def _most_points(self) -> int:
        """Points of a line, so that a page of many policies stays a small file."""
        num_lines = _LINES_OF_A_POLICY * max(1, len(self.summary.contenders))
        return max(24, min(_MOST_POINTS, _MOST_OF_A_PAGE // num_lines))

    def _cells_at_top(self, contender: Contender) -> list[Outcome]:
        rate = self.summary.top_rate
        return [cell for cell in contender.cells if cell.rate == rate and not cell.fault]


def _fullest(summary: Summary) -> dict[str, Mapping[str, str]]:
    """Labels of sets of values that are no part of another one, with the values."""
    labels = dict.fromkeys(contender.variation for contender in summary.contenders)
    every = {label: summary.values.get(label, {}) for label in labels}
    return {
        label: values
        for label, values in every.items()
        if not any(values.items() < other.items() for other in every.values())
    }


def _cdf(ordered: Sequence[float], most: int) -> list[tuple[float, float]]:
    """Some points of a distribution: value, and percent of values up to it."""
    count = len(ordered)
    return [(ordered[rank], 100 * (rank + 1) / count) for rank in _some_of(count, most)]


def _some_of(count: int, most: int) -> list[int]:
    """Indices of at most so many things, spread over all of them, both ends included."""
    num = min(count, most)
    return list(dict.fromkeys(round(i * (count - 1) / max(1, num - 1)) for i in range(num)))

"""Charts along an option that varies: its values lie on the x axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from attrs import frozen

from batchwright_lab.comparison.chart.line_chart import Line, LineChart, spans_decades
from batchwright_lab.comparison.measure import MEASURES, Measure
from batchwright_lab.comparison.report.figures import (
    LATENCY,
    NUM_HIGHLIGHTS,
    SERVICE,
    axis_of,
    highlights,
    in_words,
    name_of,
)

if TYPE_CHECKING:
    from batchwright_lab.comparison.summary import Contender, Spread, Summary

__all__ = ["Along"]

_LOG_FROM: Final = 5.0
"""Ratio of greatest to least value from which an option's axis is logarithmic."""
_Figures = Sequence["tuple[str, Spread]"]


@frozen
class Along:
    """All policies along one option, at the highest rate.

    Args:
        summary: All of it.
        option: Path of the option.
        values: Its values as they were written, in order of the command line.
        others: Label of the values of all other options that vary; empty if there is none.
        contenders: By policy, the contender with each value; one that the option does not
            concern is the same with all values.
    """

    summary: Summary
    option: str
    values: Sequence[str]
    others: str
    contenders: Mapping[str, Mapping[str, Contender]]

    @classmethod
    def of(cls, summary: Summary) -> list[Along]:
        """Return one for each option with two or more values, and each set of the others."""
        found = []
        for option in dict.fromkeys(key for values in summary.values.values() for key in values):
            texts = _values_of(summary.values.values(), option)
            for others in _others(summary.values.values(), option) if len(texts) > 1 else ():
                along = cls(
                    summary,
                    option,
                    texts,
                    ", ".join(f"{_short(key)}={value}" for key, value in others.items()),
                    {
                        policy: _by_value(summary, policy, {**others}, option, texts)
                        for policy in summary.styles
                    },
                )
                if any(along.contenders.values()):
                    found.append(along)
        return found

    def highlights(self) -> list[LineChart]:
        """The few charts that say most."""
        return self._charts(highlights(self.summary))[:NUM_HIGHLIGHTS]

    def latency(self) -> list[LineChart]:
        """Latencies along the option."""
        return self._charts(LATENCY)

    def service(self) -> list[LineChart]:
        """Throughput, fairness, memory along the option; what is always nothing is left out."""
        return self._charts(SERVICE)

    @property
    def legend(self) -> list[tuple[int, str]]:
        """Looks and names of the policies."""
        styles = self.summary.styles
        return [(styles[policy], policy) for policy, mine in self.contenders.items() if mine]

    def _charts(self, keys: Iterable[str]) -> list[LineChart]:
        charts = (self._chart(MEASURES[key]) for key in keys)
        return [chart for chart in charts if chart is not None]

    def _chart(self, measure: Measure) -> LineChart | None:
        figures = {policy: self._figures(policy, measure) for policy in self.contenders}
        most = max((s.most for found in figures.values() for _, s in found), default=0.0)
        if not most:
            return None
        factor, unit = axis_of(measure, most)
        numbers = self._numbers()
        return LineChart(
            name_of(measure, unit),
            self.option,
            [
                self._line(policy, found, measure, factor)
                for policy, found in figures.items()
                if found
            ],
            log_x=numbers is not None and spans_decades(numbers, _LOG_FROM),
            y_may_be_log=measure.unit == "s",
            x_ticks=list(self.values) if numbers is None else numbers,
        )

    def _figures(self, policy: str, measure: Measure) -> _Figures:
        rate = self.summary.top_rate
        pairs = ((text, c.at(rate, measure.key)) for text, c in self.contenders[policy].items())
        return [(text, spread) for text, spread in pairs if spread is not None]

    def _line(self, policy: str, found: _Figures, measure: Measure, factor: float) -> Line:
        numbers = self._numbers()
        if numbers is not None:
            found = sorted(found, key=lambda pair: float(pair[0]))
        return Line(
            policy,
            self.summary.styles[policy],
            [(t if numbers is None else float(t), factor * s.mean) for t, s in found],
            band=[(factor * s.least, factor * s.most) for _, s in found]
            if self.summary.seeds_differ
            else (),
            notes=[in_words(measure, spread) for _, spread in found],
        )

    def _numbers(self) -> list[float] | None:
        """The values as numbers, ascending; None if they are none."""
        try:
            numbers = sorted(map(float, self.values))
        except ValueError:
            return None
        return numbers if all(map(math.isfinite, numbers)) else None


def _by_value(
    summary: Summary, policy: str, others: Mapping[str, str], option: str, texts: Sequence[str]
) -> dict[str, Contender]:
    """The contender of a policy with each value, as far as there is one with figures."""
    found = {}
    for text in texts:
        wanted = {**others, option: text}.items()
        for contender in summary.contenders:
            has = summary.values.get(contender.variation, {}).items()
            if contender.policy == policy and contender.spreads and has <= wanted:
                found[text] = contender
    return found


def _values_of(every: Iterable[Mapping[str, str]], option: str) -> list[str]:
    return list(dict.fromkeys(values[option] for values in every if option in values))


def _others(every: Iterable[Mapping[str, str]], option: str) -> list[dict[str, str]]:
    """Sets of values of the other options that are no part of a larger one."""
    found = [
        {k: v for k, v in values.items() if k != option} for values in every if option in values
    ]
    unique = [other for index, other in enumerate(found) if other not in found[:index]]
    return [o for o in unique if not any(o.items() < more.items() for more in unique)]


def _short(path: str) -> str:
    return path.rpartition(".")[2]

"""BurstGPT's traces."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping

from attrs import frozen

from batchwright.option import option
from batchwright_plugins.workload.table import Rows, TraceOptions, TraceTable

__all__ = ["BurstGpt"]

_COLUMNS = ("Timestamp", "Model", "Request tokens", "Response tokens")


@frozen
class Options(TraceOptions):
    """Options of BurstGPT's traces."""

    model: str = option("", "Take only requests to this model, e.g. 'ChatGPT'; empty: all.")


class BurstGpt(TraceTable):
    """A trace of BurstGPT (Wang et al., 2024): times, models, prompt and output tokens.

    Columns ``Timestamp`` (s), ``Model``, ``Request tokens``, ``Response tokens``, and others that
    are not read. Requests without an answer had failed and are left out. Prompts share
    nothing.
    """

    name = "burstgpt"
    Options = Options

    @classmethod
    def recognizes(cls, head: str) -> bool:
        return all(column in head.partition("\n")[0] for column in _COLUMNS)

    def read(self) -> Rows:
        rows = Rows()
        lines = self.file.lines()
        _, header = next(lines, (1, ""))
        names = next(csv.reader([header]), [])
        if any(column not in names for column in _COLUMNS):
            raise self.file.broken(1, f"a header with {', '.join(_COLUMNS)}", header)
        for number, line in lines:
            values = next(csv.reader([line]))
            if len(values) != len(names):
                raise self.file.broken(number, f"{len(names)} values", line)
            self._add(rows, number, dict(zip(names, values, strict=True)))
        return rows

    def _add(self, rows: Rows, number: int, record: Mapping[str, str]) -> None:
        num_prompt = self.file.count(number, "Request tokens", record["Request tokens"], least=0)
        num_output = self.file.count(number, "Response tokens", record["Response tokens"], least=0)
        time = self._time(number, record["Timestamp"])
        if len(rows) and time < rows.times[-1]:
            raise self.file.broken(number, "a Timestamp not before the last", record["Timestamp"])
        wanted = self.options.model in ("", record["Model"])
        if wanted and num_prompt and num_output:
            rows.add(time, num_prompt, num_output)

    def _time(self, number: int, text: str) -> float:
        try:
            time = float(text)
        except ValueError:
            time = math.nan
        if not time >= 0:
            raise self.file.broken(number, "Timestamp, a number >= 0", text)
        return time

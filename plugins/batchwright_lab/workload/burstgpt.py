"""BurstGPT's traces."""

from __future__ import annotations

import csv
from collections.abc import Mapping

from attrs import frozen

from batchwright.option import option
from batchwright_lab.workload.table import Rows, TraceOptions, TraceTable

__all__ = ["BurstGpt"]

_COLUMNS = ("Timestamp", "Model", "Request tokens", "Response tokens")


@frozen
class Options(TraceOptions):
    """Options of BurstGPT's traces."""

    model: str = option("", "Model whose requests are taken, e.g. 'ChatGPT'; empty: all.")


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
        first, header = next(lines, (1, ""))
        names = self._values(first, header)
        if any(names.count(column) != 1 for column in _COLUMNS):
            raise self.file.broken(first, f"a header with {', '.join(_COLUMNS)}, each once", header)
        for number, line in lines:
            values = self._values(number, line)
            if len(values) != len(names):
                raise self.file.broken(number, f"{len(names)} values", line)
            self._add(rows, number, dict(zip(names, values, strict=True)))
        return rows

    def _add(self, rows: Rows, number: int, record: Mapping[str, str]) -> None:
        num_prompt = self.file.count(number, "Request tokens", record["Request tokens"], least=0)
        num_output = self.file.count(number, "Response tokens", record["Response tokens"], least=0)
        time = self.file.seconds(number, "Timestamp", _number(record["Timestamp"]))
        if len(rows) and time < rows.times[-1]:
            raise self.file.broken(number, "a Timestamp not before the last", record["Timestamp"])
        wanted = self.options.model in ("", record["Model"])
        if wanted and num_prompt and num_output:
            rows.add(time, num_prompt, num_output)

    def _values(self, number: int, line: str) -> list[str]:
        try:
            return next(csv.reader([line]), [])
        except csv.Error as error:
            raise self.file.broken(number, f"values with commas between ({error})", line) from None


def _number(text: str) -> float | str:
    """A number; what is none stays as it is."""
    try:
        return float(text)
    except ValueError:
        return text

"""Azure's LLM inference traces."""

from __future__ import annotations

from datetime import datetime

from batchwright_plugins.workload.table import Rows, TraceOptions, TraceTable

__all__ = ["Azure"]

_HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"


class Azure(TraceTable):
    """A trace of AzurePublicDataset: times, prompt and output tokens, no contents.

    Columns ``TIMESTAMP,ContextTokens,GeneratedTokens``; the traces of 2023 and 2024 alike.
    Prompts share nothing. (Patel et al., Splitwise, ISCA 2024.)
    """

    name = "azure"
    Options = TraceOptions

    @classmethod
    def recognizes(cls, head: str) -> bool:
        return head.startswith(_HEADER)

    def read(self) -> Rows:
        rows, begin, last = Rows(), None, 0.0
        for number, line in self.file.lines():
            if number == 1:
                if line.strip() != _HEADER:
                    raise self.file.broken(number, f"the header {_HEADER}", line)
                continue
            fields = line.split(",")
            if len(fields) != 3:
                raise self.file.broken(number, "a time and two numbers of tokens", line)
            stamp, num_prompt, num_output = fields
            moment = self._moment(number, stamp)
            begin = moment if begin is None else begin
            time = (moment - begin).total_seconds()
            if time < last:
                raise self.file.broken(number, "a time not before that of the line above", stamp)
            last = time
            rows.add(
                time,
                self.file.count(number, "ContextTokens", num_prompt),
                self.file.count(number, "GeneratedTokens", num_output),
            )
        return rows

    def _moment(self, number: int, stamp: str) -> datetime:
        try:  # seven digits of a second are one too many
            return datetime.fromisoformat(stamp[:26])
        except ValueError:
            raise self.file.broken(number, "a time such as 2023-11-16 18:15:46.68", stamp) from None

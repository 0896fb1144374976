"""Azure's LLM inference traces."""

from __future__ import annotations

from datetime import UTC, datetime

from batchwright_lab.workload.table import Rows, TraceOptions, TraceTable

__all__ = ["Azure"]

_HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"


class Azure(TraceTable):
    """A trace of AzurePublicDataset: times, prompt and output tokens, no contents.

    Columns ``TIMESTAMP,ContextTokens,GeneratedTokens``; the traces of 2023 and 2024 alike: with
    any number of digits of a second, with a zone or without. Prompts share nothing.
    (Patel et al., Splitwise, ISCA 2024.)
    """

    name = "azure"
    Options = TraceOptions

    @classmethod
    def recognizes(cls, head: str) -> bool:
        return head.startswith(_HEADER)

    def read(self) -> Rows:
        rows, begin, last = Rows(), None, 0.0
        lines = self.file.lines()
        first, header = next(lines, (1, ""))
        if header.strip() != _HEADER:
            raise self.file.broken(first, f"the header {_HEADER}", header)
        for number, line in lines:
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
        """A time as UTC, which it is where it names no zone."""
        try:  # of the digits of a second six are read, however many there are
            moment = datetime.fromisoformat(stamp.strip())
            if moment.tzinfo is not None:
                moment = moment.astimezone(UTC).replace(tzinfo=None)
        except (ValueError, OverflowError):
            moment = None
        if moment is None or ":" not in stamp:
            raise self.file.broken(number, "a time such as 2023-11-16 18:15:46.68", stamp)
        return moment

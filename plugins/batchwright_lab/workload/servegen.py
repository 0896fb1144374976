"""ServeGen's client mixes."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterator
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from batchwright.exceptions import ConfigError
from batchwright.option import option
from batchwright.protocols import Arrival, Workload
from batchwright_lab.workload.client_mix import Client, Window, read_clients
from batchwright_lab.workload.prompts import unique_prompt

if TYPE_CHECKING:
    from batchwright.context import Context

__all__ = ["ServeGen"]


@frozen
class Options:
    """Options of client mixes."""

    path: str = option("", "Folder or tar archive, relative to the TOML file.")
    start: float = option(0.0, "Start of the played part.", unit="seconds", ge=0)
    seconds: float = option(3600.0, "Length of the played part.", unit="seconds", gt=0)
    num_clients: int | None = option(
        None, "Most clients, the busiest first.", ge=1, default_text="all"
    )


class ServeGen(Workload):
    """The clients of ServeGen (2025): each with its own rate, burstiness and lengths.

    Each client has windows of ten minutes: its rate, the distribution of its gaps (gamma or
    Weibull; the shape is taken, the scale follows from the rate), and histograms of its
    lengths. Prompts share nothing.
    """

    name = "servegen"
    Options = Options

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        if not options.path:
            problem = "names no folder or archive; e.g. --workload servegen:FILE"
            raise ConfigError(problem, path=f"{ctx.path}.path")
        self._path = ctx.folder / Path(options.path).expanduser()

    @classmethod
    def recognizes(cls, head: str) -> bool:
        return not head

    @cached_property
    def clients(self) -> list[Client]:
        """The clients that are played."""
        found = read_clients(self._path, f"{self.ctx.path}.path")
        if self.options.num_clients is not None:
            busiest = sorted(found, key=lambda client: -client.rate)[: self.options.num_clients]
            found = sorted(busiest, key=lambda client: client.number)
        return found

    @property
    def max_output_tokens(self) -> int:
        histograms = (h for client in self.clients for _, h in client.lengths.values())
        return max(histogram.most for histogram in histograms)

    @property
    def rate(self) -> float | None:
        spans = [span for client in self.clients for span in self._spans(client)]
        total = sum(window.rate * (end - begin) for window, begin, end in spans)
        last = max((end for _, _, end in spans), default=self.options.start)
        return total / (last - self.options.start) if total else None

    def arrivals(self) -> Iterator[Arrival]:
        streams = [self._of(client) for client in self.clients]
        for number, (time, client, num_prompt, num_output) in zip(
            count(), heapq.merge(*streams), strict=False
        ):
            yield Arrival(
                time=time,
                prompt_token_ids=unique_prompt(number, num_prompt),
                num_output_tokens=num_output,
                client=f"client-{client}",
            )

    def _of(self, client: Client) -> Iterator[tuple[float, int, int, int]]:
        """One client's requests: time, client, prompt and output tokens."""
        arrivals = self.ctx.stream(f"arrivals/{client.number}")
        lengths = self.ctx.stream(f"lengths/{client.number}")
        for window, begin, end in self._spans(client):
            prompt, output = client.lengths_at(window.start)
            time = begin
            while window.rate and (time := time + _gap(window, arrivals)) < end:
                sizes = prompt.draw(lengths), output.draw(lengths)
                yield (time - self.options.start, client.number, *sizes)

    def _spans(self, client: Client) -> Iterator[tuple[Window, float, float]]:
        """A client's windows within what is played, with begin and end (seconds)."""
        first, last = self.options.start, self.options.start + self.options.seconds
        ends = [window.start for window in client.windows[1:]]
        length = ends[0] - client.windows[0].start if ends else 600.0
        ends.append(client.windows[-1].start + length)
        for window, end in zip(client.windows, ends, strict=True):
            begin, end = max(window.start, first), min(end, last)
            if begin < end:
                yield window, begin, end


def _gap(window: Window, chance: random.Random) -> float:
    """Seconds to the next arrival; the mean is that of the window's rate."""
    mean, shape = 1 / window.rate, window.shape
    if window.family == "Gamma" and shape > 0:
        return chance.gammavariate(shape, mean / shape)
    if window.family == "Weibull" and shape > 0:
        return chance.weibullvariate(mean / math.gamma(1 + 1 / shape), shape)
    return chance.expovariate(window.rate)

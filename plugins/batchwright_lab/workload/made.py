"""Arrivals that are made: gaps, lengths and prefixes by lot, each from a stream of its own."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Iterator
from itertools import cycle, islice, repeat

from attrs import Factory, frozen

from batchwright.option import option
from batchwright.protocols import Arrival, Workload
from batchwright_lab.workload.lengths import Lengths
from batchwright_lab.workload.prefixes import Prefixes
from batchwright_lab.workload.prompts import OWN_TOKENS, pieces

__all__ = ["Made", "MadeOptions"]


@frozen(kw_only=True)
class MadeOptions:
    """Options of arrivals that are made."""

    rate: float = option(1.0, "Mean rate of arrivals.", unit="1/s", gt=0)
    num_requests: int = option(1000, "Number of arrivals.", unit="requests", ge=1)
    prompt: Lengths = option(
        Factory(lambda: Lengths(mean=512.0)), "Prompt lengths.", default_text="lognormal, mean 512"
    )
    output: Lengths = option(
        Factory(lambda: Lengths(mean=128.0)), "Output lengths.", default_text="lognormal, mean 128"
    )
    prefixes: Prefixes = option(
        Factory(Prefixes), "Tree of prefixes that prompts share.", default_text="none"
    )
    num_clients: int = option(0, "Number of clients; 0: none.", ge=0)
    client_skew: float = option(
        0.0,
        "Exponent of the distribution over clients: the n-th client is n to this power "
        "times less frequent; 0: clients in turn.",
        ge=0,
    )


class Made(Workload):
    """The base of generated workloads; a subclass has the times of arrivals."""

    @abstractmethod
    def gaps(self, chance: random.Random) -> Iterator[float]:
        """Seconds between arrivals, without end."""

    @property
    def rate(self) -> float:
        return float(self.options.rate)

    @property
    def max_output_tokens(self) -> int:
        return int(self.options.output.most)

    def arrivals(self) -> Iterator[Arrival]:
        options, time = self.options, 0.0
        gaps = self.gaps(self.ctx.stream("arrivals"))
        prompts = options.prompt.draw(self.ctx.stream("prompts"))
        outputs = options.output.draw(self.ctx.stream("outputs"))
        prefixes = options.prefixes.draw(self.ctx.stream("prefixes"))
        clients = self._clients(self.ctx.stream("clients"))
        drawn = zip(gaps, prompts, outputs, prefixes, clients, strict=False)
        for number, (gap, num_prompt, num_output, prefix, client) in enumerate(
            islice(drawn, options.num_requests)
        ):
            time += gap
            own = [(OWN_TOKENS + number, 1), (1, num_prompt - 1)]
            yield Arrival(
                time=time,
                prompt_token_ids=pieces([*prefix, *own]),
                num_output_tokens=num_output,
                client=client,
            )

    def _clients(self, chance: random.Random) -> Iterator[str | None]:
        """Yield the clients of requests, without end."""
        options = self.options
        names = [f"client-{number}" for number in range(options.num_clients)]
        if not names:
            yield from repeat(None)
        if not options.client_skew:
            yield from cycle(names)
        weights = [1 / (rank + 1) ** options.client_skew for rank in range(len(names))]
        while True:
            yield from chance.choices(names, weights)

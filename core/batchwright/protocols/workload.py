"""Workloads: the arrivals of a simulation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define

from batchwright.protocols.component import Component
from batchwright.request_view import RequestView

_NO_HINTS: Mapping[str, Any] = {}


@define(kw_only=True)
class Arrival:
    """A future request, and the length of its answer.

    Args:
        time: Time of its arrival (seconds from the beginning of the workload).
        prompt_token_ids: Its prompt. Equal prefixes mean shared KV.
        num_output_tokens: Tokens that it puts out before it ends by itself, the one that
            ends it included; known to the executor alone.
        max_tokens: Its cap; None: ``simulation.max_tokens`` decides.
        output_token_id: The token that its output repeats; None: one of its own.
        request_id: Unique among live requests; None: it is counted.
        client: Its sender.
        group: A conversation or program that it belongs to.
        priority: Smaller is more urgent.
        slo_class: Name of a service class.
        deadline: Seconds after its arrival.
        hints: Values for policies that know their keys.
    """

    time: float
    prompt_token_ids: Sequence[int]
    num_output_tokens: int
    max_tokens: int | None = None
    output_token_id: int | None = None
    request_id: str | None = None
    client: str | None = None
    group: str | None = None
    priority: int = 0
    slo_class: str | None = None
    deadline: float | None = None
    hints: Mapping[str, Any] = _NO_HINTS


class Workload(Component):
    """A trace, or generated arrivals. One for a simulation.

    Random numbers come from ``ctx.stream(name)``, one stream for each source, so that runs that
    differ in one source are equal in the others.

    Faults: an exception ends the simulation; a line of a file that cannot be read is a
    ConfigError that names file, line and what was expected.
    """

    @abstractmethod
    def arrivals(self) -> Iterator[Arrival]:
        """Yield the arrivals that do not depend on the service, in order of time.

        Each call starts at the beginning. The sequence may be endless, and is read as far as
        the simulation gets.
        """

    @classmethod
    def recognizes(cls, head: str) -> bool:  # noqa: ARG003 - for those that override it
        """Return True if a file is one of its traces, for a workload that is named by its file.

        Args:
            head: The first 4096 characters of it; empty if it is no text.
        """
        return False

    def on_finish(self, arrival: Arrival, request: RequestView) -> Iterable[Arrival]:
        """Return the arrivals that follow the end of a request, such as the next turn.

        Args:
            arrival: Its arrival, from ``arrivals`` or an earlier ``on_finish``.
            request: The ended request; its outputs are those of the executor.

        Returns:
            Arrivals, not before ``request.finish_time``.

        Cost class: event.
        """
        return ()

    def on_refuse(self, arrival: Arrival, time: float) -> Iterable[Arrival]:
        """Return the arrivals that follow a refused request: its client continues.

        Args:
            arrival: Its arrival, from ``arrivals``, ``on_finish`` or ``on_refuse``.
            time: Time of the refusal (seconds).

        Returns:
            Arrivals, not before ``time``.

        Cost class: event.
        """
        return ()

    @property
    @abstractmethod
    def max_output_tokens(self) -> int:
        """Longest output that it asks for (tokens), as far as that is known."""

    @property
    def rate(self) -> float | None:
        """Mean arrivals a second; None if they depend on the service."""
        return None

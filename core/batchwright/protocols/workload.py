"""Workloads: what arrives when, in a simulation."""

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
    """A request to come, and how long its answer will be.

    Args:
        time: When it arrives (seconds from the beginning of the workload).
        prompt_token_ids: Its prompt. Equal prefixes mean shared KV.
        num_output_tokens: Tokens that it puts out before it ends by itself, the one that
            ends it included; known to the executor alone.
        max_tokens: Its cap; None: ``simulation.max_tokens`` decides.
        output_token_id: The token that its output repeats; None: one of its own.
        request_id: Unique among live requests; None: it is counted.
        client: Whose it is.
        group: A conversation or program that it belongs to.
        priority: Smaller is more urgent.
        slo_class: Name of a service class.
        deadline: Seconds after its arrival.
        hints: Anything that a policy understands.
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
    """A trace that is read, or arrivals that are made. One for a simulation.

    Chance comes from ``ctx.stream(name)``, a stream of its own for each source of it, so
    that runs that differ in one are equal in the others.

    Faults: an exception ends the simulation; a line of a file that cannot be read is a
    ConfigError that names file, line and what was expected.
    """

    @abstractmethod
    def arrivals(self) -> Iterator[Arrival]:
        """What arrives whatever happens, in order of time; each call begins anew.

        It may be endless, and is read as far as the simulation gets.
        """

    @classmethod
    def recognizes(cls, head: str) -> bool:  # noqa: ARG003 - for those that override it
        """Whether a file is one of its traces, for those who name the file alone.

        Args:
            head: The first 4096 characters of it; empty if it is no text.
        """
        return False

    def on_finish(self, arrival: Arrival, request: RequestView) -> Iterable[Arrival]:
        """What arrives because a request has ended: the next turn, the next client's task.

        Args:
            arrival: What ``arrivals`` or an earlier ``on_finish`` said of it.
            request: The ended request; its outputs are those of the executor.

        Returns:
            Arrivals, not before ``request.finish_time``.

        Cost class: event.
        """
        return ()

    def on_refuse(self, arrival: Arrival, time: float) -> Iterable[Arrival]:
        """Return what arrives although a request was refused: its client goes on.

        Args:
            arrival: What ``arrivals``, ``on_finish`` or ``on_refuse`` said of it.
            time: When that was (seconds).

        Returns:
            Arrivals, not before ``time``.

        Cost class: event.
        """
        return ()

    @property
    @abstractmethod
    def max_output_tokens(self) -> int:
        """The longest output that it asks for (tokens), as far as that is known."""

    @property
    def rate(self) -> float | None:
        """Mean arrivals a second; None where it depends on what is served."""
        return None

"""Service of clients while each wanted more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

__all__ = ["ClientService", "jain_index", "service_in_contention"]


@frozen
class ClientService:
    """Service of a client while it and another one had requests waiting.

    Args:
        amount: Computed prompt tokens and twice the output tokens.
        seconds: Length of that time (seconds).
    """

    amount: float
    seconds: float

    @property
    def rate(self) -> float | None:
        """Service a second."""
        return self.amount / self.seconds if self.seconds > 0 else None


def service_in_contention(
    times: Sequence[float],
    service: Mapping[str, Sequence[int]],
    backlog: Mapping[str, Sequence[int]],
) -> dict[str, ClientService]:
    """Add up what clients were served between samples at which two or more had requests waiting.

    Sheng et al. 2024, "Fairness in Serving Large Language Models", section 3: fairness is a
    question only among clients that are backlogged.

    Args:
        times: Of the samples (seconds).
        service: By client, service until each sample.
        backlog: By client, requests waiting at each sample.
    """
    amounts = dict.fromkeys(service, 0.0)
    seconds = dict.fromkeys(service, 0.0)
    for now in range(1, len(times)):
        wanting = [c for c in service if backlog[c][now - 1] > 0 and backlog[c][now] > 0]
        if len(wanting) < 2:
            continue
        for client in wanting:
            amounts[client] += service[client][now] - service[client][now - 1]
            seconds[client] += times[now] - times[now - 1]
    return {client: ClientService(amounts[client], seconds[client]) for client in service}


def jain_index(values: Iterable[float]) -> float | None:
    """``(sum x)^2 / (n * sum x^2)``: 1 if all are equal, 1/n if one has all.

    Jain, Chiu, Hawe 1984, DEC-TR-301. None for less than two values, or if all are 0.
    """
    found = list(values)
    squares = len(found) * sum(value * value for value in found)
    return sum(found) ** 2 / squares if len(found) > 1 and squares else None

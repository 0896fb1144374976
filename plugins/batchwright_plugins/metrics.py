"""Measures of requests, and their summary."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define

from batchwright.request_view import RequestView


def percentile(values: Sequence[float], share: float) -> float | None:
    """The value below which a share of all values lies.

    Between two values it is interpolated linearly: the definition of numpy's default
    and of spreadsheets (Hyndman and Fan 1996, type 7).

    Args:
        values: In ascending order.
        share: Percent, 0..100.

    Returns:
        None if there are no values.

    Raises:
        ValueError: ``share`` is outside.
    """
    if not 0 <= share <= 100:
        raise ValueError(f"a percentile is between 0 and 100, not {share}")
    if not values:
        return None
    place = (len(values) - 1) * share / 100
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)


def mean(values: Sequence[float]) -> float | None:
    """The arithmetic mean; None if there are no values."""
    return sum(values) / len(values) if values else None


@define
class RequestTimes:
    """Times of a request (seconds on the scheduler's clock).

    Args:
        queue_time: From arrival to the first admission; None if there was none.
        ttft: From arrival to the first output token; None if it never came.
        tpot: Mean time between output tokens after the first; None if there was no
            second one.
        e2e: From arrival to the end; None while it lives.
    """

    queue_time: float | None
    ttft: float | None
    tpot: float | None
    e2e: float | None

    @classmethod
    def of(cls, request: RequestView, num_output_tokens: int | None = None) -> RequestTimes:
        """Read the times of a request.

        Args:
            request: The request.
            num_output_tokens: Tokens of its answer; None: all that it has.
        """
        arrival, end = request.arrival_time, request.finish_time
        first, scheduled = request.first_token_time, request.scheduled_time
        count = request.num_output_tokens if num_output_tokens is None else num_output_tokens
        num_later = count - 1
        return cls(
            None if scheduled is None else scheduled - arrival,
            None if first is None else first - arrival,
            (end - first) / num_later
            if first is not None and end is not None and num_later > 0
            else None,
            None if end is None else end - arrival,
        )

"""Limits: an upper bound on the scheduled tokens of one request."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from batchwright.protocols.component import Component, Lifecycle
from batchwright.request_view import RequestView
from batchwright.step_view import StepView


class Limit(Component, Lifecycle):
    """An upper bound on one request's tokens in one step. Limits compose by minimum.

    Faults: an exception or an answer that is no integer >= 0 ends the request with
    FINISHED_ERROR.
    """

    affects_decode: ClassVar[bool] = False
    """True if it is asked about requests with one new token, too. With such a limit no request
    joins the decode batch, and a step visits every running request."""

    @abstractmethod
    def max_tokens(self, request: RequestView, num_tokens: int, view: StepView) -> int:
        """Return the most tokens that a request computes in this step.

        Args:
            request: The request.
            num_tokens: Its new tokens, cut by earlier limits.
            view: The step so far.

        Returns:
            Tokens, 0 to ``num_tokens``. 0 leaves the request out of this step; if it is a
            waiting one, the scan ends.

        Cost class: candidate (once a request).
        """

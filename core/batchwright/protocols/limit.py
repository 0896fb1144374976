"""Limits: an upper bound on one request's grant."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from batchwright.protocols.component import Component, Lifecycle
from batchwright.request_view import RequestView
from batchwright.step_view import StepView


class Limit(Component, Lifecycle):
    """An upper bound on one request's grant in one step. Limits compose by minimum.

    Faults: an exception or an answer that is no integer >= 0 ends the request with
    FINISHED_ERROR.
    """

    affects_decode: ClassVar[bool] = False
    """Whether it wants to be asked about a debt of one token. If any limit does, no
    request is left out of the scan, and a step costs what runs."""

    @abstractmethod
    def max_tokens(self, request: RequestView, num_tokens: int, view: StepView) -> int:
        """Bound a grant.

        Args:
            request: Who would get it.
            num_tokens: What it would get: its debt, cut by earlier limits.
            view: The step so far.

        Returns:
            Tokens, 0 to ``num_tokens``; 0 leaves it out of this step (a waiting
            request then ends the scan).

        Cost class: candidate (once a grant).
        """

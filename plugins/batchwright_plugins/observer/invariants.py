"""Check the invariants after every step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from attrs import frozen

from batchwright.option import option
from batchwright.protocols import Observer

if TYPE_CHECKING:
    from batchwright.context import Context
    from batchwright.messages import StepOutputs
    from batchwright.request_view import RequestView
    from batchwright.step_record import StepRecord
    from batchwright.testing.violations import Violation

__all__ = ["Invariants"]


@frozen
class Options:
    """Options of the invariants observer."""

    on_violation: Literal["raise", "log"] = option(
        "raise", "Effect of a violation: end the run with InvariantError, or log it."
    )
    patience: int = option(
        8,
        "Most steps in a row without scheduled tokens though a request could be scheduled.",
        unit="steps",
        ge=1,
    )


class Invariants(Observer):
    """Check every plan and every update: E1, E2, E3, E5, E6 and I1 to I6.

    The ids are explained in ``batchwright.testing.violations``. A message names the invariant
    and the request or block. It costs O(blocks + running requests) a step: for tests and for
    hunting a bug, not for production.
    """

    name = "invariants"
    Options = Options

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        from batchwright.testing.watch import Watch  # tools that only this one needs

        self._watch = Watch(ctx.sizes, patience=options.patience)
        self._counts: dict[str, int] = {}
        self._num_checks = 0

    def setup(self) -> None:
        self._watch.checks_contents = not self.ctx.compat.keeps_victims_hashes

    def on_add(self, request: RequestView) -> None:
        self._watch.added(request)

    def on_finish(self, request: RequestView) -> None:
        self._report(self._watch.ended(request))

    def on_step(self, record: StepRecord) -> None:
        self._report(self._watch.planned(record.plan, record.view, record.budget))

    def on_outputs(self, outputs: StepOutputs) -> None:
        self._report(self._watch.updated(outputs, self.ctx.view))

    def summary(self) -> dict[str, object]:
        """Checks made, and violations by invariant."""
        return {"checks": self._num_checks, "violations": dict(self._counts)}

    def _report(self, violations: Iterable[Violation]) -> None:
        self._num_checks += 1
        found = list(violations)
        for violation in found:
            count = self._counts.get(violation.invariant, 0)
            self._counts[violation.invariant] = count + 1
        if self.options.on_violation == "raise":
            from batchwright.testing.violations import raise_violations

            raise_violations(found)
        for violation in found:
            self.ctx.log.error("step %d: %s", self.ctx.view.step_id, violation)

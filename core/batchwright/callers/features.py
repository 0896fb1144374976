"""Calls of features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from batchwright.callers.guard import ANYTHING, REASON_OR_NONE, Guard, defining
from batchwright.messages import SchedulerOutput
from batchwright.protocols import Feature
from batchwright.request_view import RequestView


class Features:
    """Asks and tells features; a fault in ``check`` belongs to the request."""

    def __init__(self, features: Sequence[Feature], guard: Guard) -> None:
        self._features = features
        self._by_name = {feature.name: feature for feature in features}
        self._guard = guard

    def check(self, request: RequestView) -> str | None:
        """Return the reason why a feature refuses what a request says to it, or None.

        Raises:
            RequestFault: A feature failed on it.
        """
        ask = self._guard.ask_about_request
        for name, data in request.features.items():
            feature = self._by_name.get(name)
            if feature is None:
                return f"no feature {name!r} is configured (configured: {sorted(self._by_name)})"
            reason = ask(feature, feature.check, REASON_OR_NONE, request, data)
            if reason is not None:
                return f"feature {name!r}: {reason}"
        return None

    def build_metadata(self, plan: SchedulerOutput) -> None:
        """Add to a plan what features tell their worker sides."""
        for feature in self._features:
            extra = self._guard.ask(feature, feature.build_metadata, ANYTHING, plan)
            if extra is not None:
                plan.extras[feature.name] = extra

    def update_from_worker(self, extras: Mapping[str, Any]) -> bool:
        """Hand features what their worker sides answered.

        Returns:
            Whether any feature was answered.
        """
        answered = [feature for feature in self._features if feature.name in extras]
        for feature in answered:
            self._guard.ask(feature, feature.update_from_worker, ANYTHING, extras[feature.name])
        return bool(answered)

    def on_restart(self) -> bool:
        """Tell features that the executor was restarted.

        Returns:
            Whether any of them listens.
        """
        told = defining(self._features, Feature.on_restart)
        for feature, on_restart in told:
            self._guard.ask(feature, on_restart, ANYTHING)
        return bool(told)

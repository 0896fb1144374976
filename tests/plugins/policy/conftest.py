"""Benches under a policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def policy_bench(make_bench: Any) -> Callable[..., Any]:
    """A bench under a policy, watched throughout."""

    def make(
        policy: str,
        options: dict[str, Any] | None = None,
        *,
        sections: dict[str, Any] | None = None,
        **bench: Any,
    ) -> Any:
        found = {
            "policy": {policy: options or {}},
            "observer": [{"use": "invariants"}],
            **(sections or {}),
        }
        return make_bench(policy=policy, sections=found, **bench)

    return make

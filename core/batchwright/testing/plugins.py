"""Plugins made on the spot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from batchwright.hookspecs import HOOK_PREFIX, hookimpl


def make_plugin(**classes: Sequence[type]) -> object:
    """Build a plugin that offers classes by kind, e.g. ``make_plugin(gate=[MyGate])``.

    Returns:
        A plugin for ``extra`` of ``PluginManager.discover``, and ``scheduler_from_config``
        as ``plugins``.
    """

    def factory(offered: Sequence[type]) -> Callable[[Any], Sequence[type]]:
        def offer(_self: Any) -> Sequence[type]:
            return offered

        return hookimpl(offer)

    hooks = {f"{HOOK_PREFIX}{kind}": factory(offered) for kind, offered in classes.items()}
    return type("MadePlugin", (), hooks)()

"""Set-up and end of components, and the search for the one that broke a step."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from traceback import walk_tb

from batchwright.callers.guard import Guard, name_of, raised, traceback_of
from batchwright.exceptions import OUTSIDE, BatchwrightError, PluginError
from batchwright.protocols import Component

_log = logging.getLogger("batchwright.scheduler")


def set_up(component: Component) -> None:
    """Have a component prepare itself.

    Raises:
        PluginError: It cannot.
    """
    try:
        component.setup()
    except (BatchwrightError, *OUTSIDE):
        raise
    except BaseException as error:
        what = raised(error, component, name_of(component, component.setup))
        raise PluginError(what, where=f"{component.ctx.label}: setup()") from error


def close(component: Component, guard: Guard) -> None:
    """Have a component release what it holds; a fault is counted and logged."""
    try:
        component.close()
    except OUTSIDE:
        raise
    except BaseException as error:
        name = name_of(component, component.close)
        where, what = guard.count(component, name), raised(error, component, name)
        _log.error("%s %s", where, what, exc_info=traceback_of(error))


def raise_as_fault(error: BaseException, components: Iterable[Component]) -> None:
    """Name the component in whose code an uncaught exception arose.

    That of a KV manager or of a queue: what they hold is unknown now, so the run ends.

    Raises:
        PluginError: It is a component's; not if it is announced, or of none of them.
    """
    if isinstance(error, (BatchwrightError, *OUTSIDE)):
        return
    owners: dict[int, Component] = {}
    for component in components:
        owners[id(component)] = owners[id(getattr(component, "queue", component))] = component
    for frame, _ in reversed(list(walk_tb(error.__traceback__))):
        owner = owners.get(id(frame.f_locals.get("self")))
        if owner is not None:
            raise PluginError(
                f"{raised(error, owner, frame.f_code.co_name)}; what it holds is unknown now",
                where=f"{owner.ctx.label}: {frame.f_code.co_name}()",
            ) from error

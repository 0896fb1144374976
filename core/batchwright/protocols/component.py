"""The base of every component: a name, options, a context, a lifecycle."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar

from attrs import frozen

from batchwright.context import Context
from batchwright.request_view import RequestView


@frozen
class NoOptions:
    """The options of a component that has none."""


@frozen
class Subcomponent:
    """A component that is made for another one, its owner.

    It is built like any other, with a context and data of its own, and bound to the scheduler.
    Its owner sets it up, passes events to it and closes it.

    Args:
        kind: Its kind.
        option: The option of the owner that names it; empty: the configured one.
    """

    kind: str
    option: str = ""


class Component(ABC):
    """A class that a TOML file can select by name.

    A subclass sets ``name`` (as the TOML says it, e.g. ``"fcfs"``) and, if it has any,
    ``Options``: an attrs class whose fields are the keys of its TOML table. Fields
    with ``metadata={"help": ..., "unit": ...}`` are documented by it.

    Attributes:
        options: An instance of ``Options``, checked by the loader.
        ctx: Access to what components share (``batchwright.context.Context``).
        idle_methods: Methods that have no effect under these options; set by ``__init__``. They
            are treated as if they were not overridden.
    """

    name: ClassVar[str] = ""
    Options: ClassVar[type] = NoOptions
    Data: ClassVar[type | None] = None
    """Class of the values that it keeps with each request (``ctx.data(request)``). It is made
    without arguments, e.g. an attrs class whose fields have defaults."""
    subcomponents: ClassVar[Mapping[str, Subcomponent]] = {}
    """Components that are made for this one, by their names in ``ctx.components``."""
    idle_methods: Collection[str] = ()

    def __init__(self, options: Any, ctx: Context) -> None:
        self.options = options
        self.ctx = ctx

    def setup(self) -> None:
        """Prepare; called once, when the scheduler and every component exist.

        Errors: an exception stops the start, naming the component.
        """

    def close(self) -> None:
        """Close what ``setup`` opened; called once, at the end.

        Errors: an exception is logged, naming the component.
        """


class Lifecycle:
    """Events of requests, reported after the fact and never for a rollback.

    Mixed into every kind that decides about requests. Only overridden methods are
    called; an exception in one counts as a fault of the component (see "Faults" in
    the reference) and changes nothing for the request.

    Cost class: event. None of these methods is called for a decode.
    """

    def on_add(self, request: RequestView) -> None:
        """Handle a new request: it was accepted, and waits in the queue or for a key."""

    def on_admit(self, request: RequestView, hit: int, need: int) -> None:
        """Handle an admission, the first one or one after a preemption.

        Args:
            request: The request, running now.
            hit: Tokens found in the prefix cache.
            need: Blocks taken from the free pool.
        """

    def on_preempt(self, request: RequestView, cause: str, lost_tokens: int) -> None:
        """Handle the preemption of a running request.

        Args:
            request: The request, waiting again.
            cause: ``shortage``, ``policy`` or ``executor``; ``paused`` if it keeps its blocks.
                If a paused request loses its blocks later, this is called again, with
                ``shortage``.
            lost_tokens: Computed tokens that it lost.
        """

    def on_finish(self, request: RequestView) -> None:
        """Handle the end of a request; ``request.finish`` has the reason."""


def defines(component: object, method: Callable[..., object]) -> bool:
    """Tell whether a component overrides a method of its contract, as ``Gate.open``."""
    return overrides(component, method.__name__)


def overrides(component: object, name: str) -> bool:
    """Return True if a component (or its class) defines a method that its protocol declares.

    A method that is not overridden is never called, so that it costs nothing.
    """
    cls = component if isinstance(component, type) else type(component)
    implementation = getattr(cls, name, None)
    module = getattr(implementation, "__module__", "")
    is_own = implementation is not None and not module.startswith("batchwright.protocols")
    return is_own and name not in getattr(component, "idle_methods", ())

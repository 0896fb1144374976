"""What every component is: a name, options, a context, a lifecycle."""

from __future__ import annotations

from abc import ABC
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from attrs import frozen

from batchwright.context import Context
from batchwright.request_view import RequestView


@frozen
class NoOptions:
    """The options of a component that has none."""


@frozen
class Subcomponent:
    """A component that is made for another one, which decides when it is asked.

    It is built like any other, with a context and data of its own,
    and bound to the scheduler; to set it up, to tell it what happens and to close it is
    the affair of the component that it is made for.

    Args:
        kind: Its kind.
        option: The option of that component that names it; empty: the one that is configured.
    """

    kind: str
    option: str = ""


class Component(ABC):
    """A choice that a TOML file can name.

    A subclass sets ``name`` (as the TOML says it, e.g. ``"fcfs"``) and, if it has any,
    ``Options``: an attrs class whose fields are the keys of its TOML table. Fields
    with ``metadata={"help": ..., "unit": ...}`` are documented by it.

    Attributes:
        options: An instance of ``Options``, checked by the loader.
        ctx: What components share (``batchwright.context.Context``).
        idle_methods: Methods that these options leave nothing to do; set by ``__init__``.
            They are called as little as if they were not overridden.
    """

    name: ClassVar[str] = ""
    Options: ClassVar[type] = NoOptions
    Data: ClassVar[type | None] = None
    """What it keeps with each request (``ctx.data(request)``): a class that is made without
    arguments, e.g. an attrs class whose fields have defaults."""
    subcomponents: ClassVar[Mapping[str, Subcomponent]] = {}
    """Components that are made for this one, by the name that ``ctx.components`` has them under."""
    idle_methods: Collection[str] = ()

    def __init__(self, options: Any, ctx: Context) -> None:
        self.options = options
        self.ctx = ctx

    def setup(self) -> None:
        """Prepare; called once, when the scheduler and every component exist.

        Errors: an exception stops the start, naming the component.
        """

    def close(self) -> None:
        """Flush and release what ``setup`` took; called once, at the end.

        Errors: an exception is logged, naming the component.
        """


class Lifecycle:
    """What happens to requests, told after the fact and never on a rollback.

    Mixed into every kind that decides about requests. Only overridden methods are
    called; an exception in one counts as a fault of the component (see "Faults" in
    the reference) and changes nothing for the request.

    Cost class: event. None of these is called for a decode.
    """

    def on_add(self, request: RequestView) -> None:
        """A request was accepted and waits (or is parked)."""

    def on_admit(self, request: RequestView, hit: int, need: int) -> None:
        """A request got its first grant, or its first one after a preemption.

        Args:
            request: The request, running now.
            hit: Tokens found in the prefix cache.
            need: Blocks taken from the free pool.
        """

    def on_preempt(self, request: RequestView, cause: str, lost_tokens: int) -> None:
        """A running request yielded its KV.

        Args:
            request: The request, waiting again.
            cause: ``shortage``, ``policy`` or ``executor``; ``paused`` if it keeps its KV
                for now (if that goes later, it is told again, with ``shortage``).
            lost_tokens: Computed tokens that it gave up.
        """

    def on_finish(self, request: RequestView) -> None:
        """A request ended; ``request.finish`` says how."""


def overrides(component: object, name: str) -> bool:
    """Whether a component (or its class) defines a method that its protocol declares.

    A method that is not overridden is never called, so that what a component does
    not define costs nothing.
    """
    cls = component if isinstance(component, type) else type(component)
    implementation = getattr(cls, name, None)
    module = getattr(implementation, "__module__", "")
    is_own = implementation is not None and not module.startswith("batchwright.protocols")
    return is_own and name not in getattr(component, "idle_methods", ())

"""Step controls. None ships yet: a step is capped by its token budget alone."""

from batchwright.hookspecs import hookimpl
from batchwright.protocols import Control


@hookimpl
def batchwright_register_control() -> list[type[Control]]:
    return []

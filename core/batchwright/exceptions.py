"""Every exception that Batchwright raises on purpose.

::

    BatchwrightError
    ├── ConfigError            a TOML file or an override is wrong
    ├── PluginError            a plugin is broken, missing, ambiguous or misbehaves
    ├── RequestRefusedError    add_request could never run this request
    ├── StepError              schedule() and update_from_output() were called out of turn
    ├── ExecutorError          the executor failed and could not be brought back
    ├── InvariantError         the scheduler's or an executor's own books are wrong: a bug
    └── ModelError             a model cannot be loaded or cannot be served
"""

from __future__ import annotations

from typing import Final

OUTSIDE: Final = (KeyboardInterrupt, GeneratorExit)
"""Exceptions that ask a program to stop; all others are faults of the code that raises them,
``SystemExit`` too."""


class BatchwrightError(Exception):
    """The base of all exceptions that Batchwright raises on purpose."""


class ConfigError(BatchwrightError):
    """The configuration cannot be used.

    Args:
        message: The value that was found, the expected one, the remedy.
        path: Dotted TOML path of the offending option, e.g. ``scheduler.max_num_seqs``.
        source: The file (or ``-o`` override) that holds it.
    """

    def __init__(self, message: str, *, path: str = "", source: str = "") -> None:
        self.message = message
        self.path = path
        self.source = source
        super().__init__(": ".join(part for part in (source, path, message) if part))


class PluginError(BatchwrightError):
    """A plugin is broken, missing, ambiguous, or broke its contract too often.

    Args:
        message: The fault, the expected value, the remedy.
        plugin: Name of the plugin or component.
        distribution: ``name version`` of the distribution that ships it, if known.
        where: The hook or method, e.g. ``batchwright_register_policy`` or ``Fair.key``.
    """

    def __init__(
        self, message: str, *, plugin: str = "", distribution: str = "", where: str = ""
    ) -> None:
        self.message = message
        self.plugin = plugin
        self.distribution = distribution
        self.where = where
        who = f"plugin {plugin!r}" if plugin else ""
        if distribution:
            who = f"{who} ({distribution})".strip()
        super().__init__(": ".join(part for part in (who, where, message) if part))


class RequestRefusedError(BatchwrightError):
    """``add_request`` refused a request; nothing was added.

    Args:
        request_id: The refused request.
        reason: Reason why it could never run, or the gate that rejected it.
    """

    def __init__(self, request_id: str, reason: str) -> None:
        self.request_id = request_id
        self.reason = reason
        super().__init__(f"request {request_id!r} refused: {reason}")


class StepError(BatchwrightError):
    """The driver called ``schedule()`` or ``update_from_output()`` out of turn."""


class ExecutorError(BatchwrightError):
    """The executor failed, and restarting it did not help."""


class InvariantError(BatchwrightError):
    """Something is wrong that no input, plugin or timing may bring about: a bug.

    Raised by checks that are asked for (``batchwright.testing``, an observer); unlike
    other exceptions of an observer it ends the run.

    Args:
        invariant: Its id, e.g. ``E5``; the ids are listed in ``batchwright.testing``.
        message: The violation, with its request or block.
    """

    def __init__(self, invariant: str, message: str) -> None:
        self.invariant = invariant
        self.message = message
        super().__init__(f"{invariant}: {message}")


class ModelError(BatchwrightError):
    """A model cannot be found, loaded, or served by this executor."""

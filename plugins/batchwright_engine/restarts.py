"""Failures of an executor, and its restarts."""

from __future__ import annotations

import logging
from collections.abc import Callable

from batchwright.exceptions import ExecutorError
from batchwright.protocols import Executor

_log = logging.getLogger("batchwright.engine")


class Restarts:
    """Counts failures in a row, and restarts the executor as often as it may fail.

    Args:
        executor: The executor.
        most: Failures in a row that are survived.

    Attributes:
        num_failures: Failures in a row so far.
    """

    def __init__(self, executor: Executor, most: int) -> None:
        self._executor = executor
        self._most = most
        self.num_failures = 0

    def restart(self, call: Callable[[Callable[[], None]], None]) -> None:
        """Restart the executor.

        Args:
            call: Calls a function on the thread that the executor works on.

        Raises:
            ExecutorError: It failed too often in a row.
        """
        while True:
            try:
                return call(self._executor.recover)
            except Exception as error:
                self.count("in restart()", error)

    def count(self, where: str, error: Exception) -> None:
        """Count a failure of the executor.

        Raises:
            ExecutorError: It is one too many in a row.
        """
        self.num_failures += 1
        label, what = self._executor.ctx.label, f"{type(error).__name__}: {error}"
        if self.num_failures > self._most:
            raise ExecutorError(
                f"{label} failed {self.num_failures} times in a row; last {where}: {what} "
                "(executor.max_restarts)"
            ) from error
        message = "%s failed %s (%s); every request in flight is put back"
        _log.warning(message, label, where, what)

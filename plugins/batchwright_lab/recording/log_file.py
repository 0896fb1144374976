"""Decision logs in files, for commands: what cannot be read is said in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchwright.default_plugins import DEFAULT_POLICY
from batchwright.exceptions import ConfigError
from batchwright_lab.text_lines import require_file, text_lines
from batchwright_plugins.observer.decision_trail import LogError, follow, read_header

if TYPE_CHECKING:
    from batchwright_plugins.observer.decision_trail import DecisionTrail

__all__ = ["damaged", "follow_log", "header_of", "log_lines", "recorded_policy"]


def follow_log(path: Path) -> Iterator[DecisionTrail]:
    """Follow a log; see ``decision_trail.follow``.

    Raises:
        ConfigError: It cannot be read, or is no decision log; names the line, and says why.
    """
    with _reading(path):
        yield from follow(log_lines(path))


def header_of(path: Path) -> dict[str, Any]:
    """Read the first line of a log, which is read on later.

    Raises:
        ConfigError: It cannot be read, or is no decision log; says why.
    """
    with _reading(path):
        require_file(path)
        return read_header(next(log_lines(path), ""))


def log_lines(path: Path) -> Iterator[str]:
    """The lines of a log. The last one may be cut within a character: ``follow`` leaves it out.

    Raises:
        ConfigError: It cannot be read.
    """
    if not path.exists():
        hint = 'the observer "decision-log" writes one during a run'
        raise ConfigError(f"there is no decision log; {hint}", source=str(path))
    return text_lines(path, errors="surrogateescape")


def damaged(path: Path, line: int, problem: str) -> ConfigError:
    """Return the error to raise for a line that does not go with those before it."""
    text = f"does not go with the lines before it ({problem}); the log is damaged"
    return ConfigError(text, source=f"{path}:{line}")


def recorded_policy(header: dict[str, Any]) -> str:
    """Name of the policy that decided; empty if a log does not say."""
    if "config" not in header:
        return ""
    name: str = header["config"].get("scheduler", {}).get("policy", DEFAULT_POLICY)
    return name


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except LogError as error:
        source = str(path) if error.line is None else f"{path}:{error.line}"
        raise ConfigError(str(error), source=source) from error

"""Decision logs in files, for commands: what cannot be read is said in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from batchwright.default_plugins import DEFAULT_POLICY
from batchwright_plugins.observer.decision_trail import follow, read_header

if TYPE_CHECKING:
    from batchwright_plugins.observer.decision_trail import DecisionTrail

__all__ = ["follow_log", "header_of", "recorded_policy"]


def follow_log(path: Path) -> Iterator[DecisionTrail]:
    """Follow a log; see ``decision_trail.follow``.

    Raises:
        ClickException: It cannot be read, or is no decision log; says why.
    """
    with _reading(path), path.open(encoding="utf-8") as file:
        yield from follow(file)


def header_of(path: Path) -> dict[str, Any]:
    """What the first line of a log says.

    Raises:
        ClickException: It cannot be read, or is no decision log; says why.
    """
    with _reading(path), path.open(encoding="utf-8") as file:
        return read_header(file.readline())


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
    except FileNotFoundError as error:
        hint = 'the observer "decision-log" writes one during a run'
        raise click.ClickException(f"there is no decision log {path}; {hint}") from error
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{path}: is no decision log: it is no text") from error
    except ValueError as error:
        raise click.ClickException(f"{path}: {error}") from error

"""Policies as a command line names them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

from batchwright.exceptions import ConfigError
from batchwright.plugin_manager import PluginManager
from batchwright.registration import Registration
from batchwright.suggest import did_you_mean

__all__ = ["PolicyChoice", "choose_policies"]

_LABEL: Final = re.compile(r"[\w.+-]+")
_OPTION: Final = "--policy"


@frozen
class PolicyChoice:
    """A policy that takes part.

    Args:
        label: Its name in the report; unique.
        name: Its name in the TOML file.
        path: The file that it is loaded from; None: it is installed.
    """

    label: str
    name: str
    path: Path | None = None


def choose_policies(
    texts: Sequence[str], disable: Sequence[str] = (), load: Sequence[Path] = ()
) -> list[PolicyChoice]:
    """Read ``NAME``, ``FILE.py`` or ``FILE.py:NAME``, each with ``LABEL=`` before it or not.

    Args:
        texts: Values of ``--policy`` in order; the others are compared with the first.
        disable: ``plugins.disable`` of the configuration.
        load: Files of ``plugins.load``, whose policies can be named, too.

    Raises:
        ConfigError: One has another form, or two have the same label.
        PluginError: No plugin offers it, or its file is broken.
    """
    installed = PluginManager.discover(load, disable)
    choices = [_choose(text, installed, disable) for text in texts]
    _refuse_twins(choices)
    return choices


def _choose(text: str, installed: PluginManager, disable: Sequence[str]) -> PolicyChoice:
    label, sign, what = text.rpartition("=")
    if not what or (sign and not _LABEL.fullmatch(label)):
        problem = "expected NAME, FILE.py or FILE.py:NAME, with LABEL= before it or not"
        raise ConfigError(problem, source=f"{_OPTION} {text}")
    file, name = _split(what)
    if file is None:
        found = installed.find("policy", name, option=_OPTION)
        return PolicyChoice(label or name, found.name)
    path = Path(file).expanduser().resolve()
    offered = PluginManager.discover([path], disable).registrations("policy")
    found = _only([offer for offer in offered if offer.path == path], name, text)
    return PolicyChoice(label or found.name, found.name, path)


def _split(what: str) -> tuple[str | None, str]:
    """The file, if it is one, and the name, if there is one."""
    file, colon, name = what.rpartition(":")
    if colon and file.endswith(".py"):
        return file, name
    return (what, "") if what.endswith(".py") else (None, what)


def _only(offers: list[Registration], name: str, text: str) -> Registration:
    named = [offer for offer in offers if name in ("", offer.name)]
    if len(named) == 1:
        return named[0]
    names = [offer.name for offer in offers]
    if not names:
        problem = "offers no policy: batchwright_register_policy should return its class"
    elif name:
        problem = f"offers no policy {name!r}.{did_you_mean(name, names)} It has {', '.join(names)}"
    else:
        problem = f"offers {len(names)} policies; name one: FILE.py:{' or FILE.py:'.join(names)}"
    raise ConfigError(problem, source=f"{_OPTION} {text}")


def _refuse_twins(choices: Iterable[PolicyChoice]) -> None:
    seen: set[str] = set()
    for choice in choices:
        if choice.label in seen:
            problem = f"two are called {choice.label!r}; give one a label of its own: LABEL="
            raise ConfigError(problem, source=f"{_OPTION} {choice.label}")
        seen.add(choice.label)

"""The pytest plugin: ``pytest --batchwright my=./my_policy.py`` tests a plugin's components.

pytest imports this module at every start where Batchwright is installed, so that it
imports nothing itself but what pytest has imported already.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from batchwright.plugin_manager import PluginManager
    from batchwright.registration import Registration

_HELP = """
run the conformance suite of each component of a plugin: of a single file, ./my_policy.py or
LABEL=./my_policy.py, or of the installed components of a name, NAME or KIND.NAME; may be
repeated. Other tests run only where their paths are given, too
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--batchwright``."""
    parser.getgroup("batchwright").addoption(
        "--batchwright",
        action="append",
        default=[],
        metavar="[LABEL=]FILE|NAME",
        help=" ".join(_HELP.split()),
    )


def pytest_configure(config: pytest.Config) -> None:
    """Leave out the tests of this folder, or of ``testpaths``, which were not asked for."""
    if config.getoption("--batchwright") and config.args_source is not config.ArgsSource.ARGS:
        config.args = []


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add the suites to what was collected, before ``-k`` and ``-m`` choose from it."""
    for number, what in enumerate(config.getoption("--batchwright")):
        items.extend(session.genitems(_collector(session, what, number)))


def _collector(session: pytest.Session, what: str, number: int) -> pytest.Module:
    pytest.register_assert_rewrite("batchwright.testing.conformance")
    label, _, rest = what.rpartition("=")
    base = session.config.invocation_params.dir
    if rest.endswith(".py"):
        path = (base / Path(rest).expanduser()).resolve()
        found = _of_file(path)
    else:
        path = base / f"{rest}.py"  # no file, but pytest names what it runs by one
        found = _installed(rest)
    module = ModuleType(f"batchwright_suites_{number}")
    vars(module).update(_suites(found, label))
    collector: pytest.Module = _Suites.from_parent(session, path=path, suites=module)
    return collector


class _Suites(pytest.Module):
    """A test module that is made instead of being imported."""

    def __init__(self, suites: ModuleType, **keywords: Any) -> None:
        super().__init__(**keywords)
        self._suites = suites

    def _getobj(self) -> ModuleType:
        return self._suites

    def classnamefilter(self, name: str) -> bool:
        return name.startswith("Test")


def _of_file(path: Path) -> list[Registration]:
    """The components of a single file.

    Raises:
        UsageError: It cannot be loaded, or offers none.
    """
    from batchwright.exceptions import BatchwrightError
    from batchwright.plugin_manager import PluginManager

    try:
        plugins = PluginManager.discover([path])
    except BatchwrightError as error:
        raise pytest.UsageError(f"--batchwright: {error}") from error
    found = [offer for offer in plugins.registrations() if offer.path == path]
    if not found:
        raise pytest.UsageError(f"--batchwright: {path} offers no components")
    return found


def _installed(wanted: str) -> list[Registration]:
    """The installed components of a name, of whatever kind.

    Raises:
        UsageError: There is none.
    """
    from batchwright.plugin_manager import PluginManager

    plugins = PluginManager.discover(refuse_broken=False)
    found = [r for r in plugins.registrations() if wanted in (r.name, f"{r.kind}.{r.name}")]
    if not found:
        raise pytest.UsageError(f"--batchwright: {_unknown(wanted, plugins)}")
    return found


def _unknown(wanted: str, plugins: PluginManager) -> str:
    from batchwright.suggest import did_you_mean

    names = list(dict.fromkeys(offer.name for offer in plugins.registrations()))
    hint = did_you_mean(wanted.rpartition(".")[2], names)
    faults = "".join(f" {fault.error()}" for fault in plugins.broken)
    return (
        f"no component {wanted!r} is installed.{hint} For a single file give its path, "
        f"ending in .py.{faults}"
    )


def _suites(found: list[Registration], label: str) -> Iterator[tuple[str, type[Any]]]:
    from batchwright.testing.conformance import conformance_for

    for offer in found:
        words = filter(None, ("Test", label, offer.kind, offer.name.replace("-", "_")))
        yield "_".join(words), conformance_for(offer.kind, offer.cls)

"""The output of ``batchwright new``: a distribution around one component."""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import Template
from typing import Final

from attrs import frozen

from batchwright_cli.scaffold.sources import SOURCES

__all__ = ["KINDS", "Scaffold", "name_problem"]

KINDS: Final = tuple(sorted(SOURCES))
"""Kinds that there is a source for."""

_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")

_PYPROJECT = Template("""\
[build-system]
requires = ["hatchling>=1.26"]
build-backend = "hatchling.build"

[project]
name = "$distribution"
version = "0.1.0"
description = "The $kind $name for Batchwright."
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["attrs>=24.2", "batchwright>=0.1"]

[project.optional-dependencies]
test = ["pytest>=8.3"]

[project.entry-points.batchwright]
$name = "$package"

[tool.hatch.build.targets.wheel]
packages = ["src/$package"]

[tool.pytest.ini_options]
testpaths = ["tests"]
""")

_TEST = Template('''\
"""$component keeps the contract of its kind."""

from $package import $component

from batchwright.testing.conformance import $conformance


class Test$component($conformance):
    component = $component$options
''')

_README = Template("""\
# $distribution

The $kind `$name` for Batchwright.

    pip install $distribution

Installing it activates nothing; the TOML file does:

    $selection

Its options are in `batchwright plugins`.

## Working on it

    pip install -e '.[test]'
    pytest

`tests/` checks what is promised of every $kind: that no request is lost, no answer depends
on it, equal seeds decide equally. Add what is promised of this one.
""")

_SELECTIONS: Final = {
    "policy": '[scheduler]\n    policy = "{name}"',
    "victim": '[scheduler]\n    victim = "{name}"',
}


_OPTIONS: Final = {
    "gate": '\n    options = {"tokens": 10, "requests": 1}',
    "limit": '\n    options = {"tokens": 8}',
}
"""With which a component matters in the small workloads of its test."""


@frozen
class Scaffold:
    """A distribution that is to be written.

    Args:
        kind: One of ``KINDS``.
        name: Name of the component in the TOML file.
    """

    kind: str
    name: str

    @property
    def distribution(self) -> str:
        """Name of the distribution."""
        return f"batchwright-{self.name}"

    @property
    def package(self) -> str:
        """Name of its package."""
        return self.distribution.replace("-", "_")

    @property
    def component(self) -> str:
        """Name of its class."""
        words = "".join(word.capitalize() for word in self.name.split("-"))
        suffix = self.kind.capitalize()
        return f"My{suffix}" if words == suffix else words.removesuffix(suffix) + suffix

    def files(self) -> Mapping[str, str]:
        """The files, by their path in the distribution."""
        values = {
            "kind": self.kind,
            "name": self.name,
            "distribution": self.distribution,
            "package": self.package,
            "component": self.component,
            "conformance": f"{self.kind.capitalize()}Conformance",
            "options": _OPTIONS.get(self.kind, ""),
            "selection": self._selection(),
        }
        return {
            "pyproject.toml": _PYPROJECT.substitute(values),
            "README.md": _README.substitute(values),
            f"src/{self.package}/__init__.py": SOURCES[self.kind].substitute(values),
            f"src/{self.package}/py.typed": "",
            f"tests/test_{self.name.replace('-', '_')}.py": _TEST.substitute(values),
        }

    def _selection(self) -> str:
        default = '[[{kind}]]\n    use = "{name}"'
        return _SELECTIONS.get(self.kind, default).format(kind=self.kind, name=self.name)


def name_problem(name: str) -> str | None:
    """Say why a name cannot be a component's, or None."""
    if _NAME.fullmatch(name):
        return None
    return (
        f"{name!r} is no name of a component: expected a lower-case letter, then lower-case "
        "letters and digits, in words joined by '-'"
    )

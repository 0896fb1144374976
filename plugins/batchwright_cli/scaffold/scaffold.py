"""The output of ``batchwright new``: a distribution around one component."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from string import Template
from typing import Final

from attrs import frozen

from batchwright.config import LIST_KINDS, SELECTORS
from batchwright.hookspecs import COMPONENT_KINDS

__all__ = ["KINDS", "Scaffold", "name_problem"]

_TEMPLATES: Final = files("batchwright_cli.scaffold") / "templates"
_SUFFIX: Final = ".py.txt"

KINDS: Final = tuple(
    kind for kind in sorted(COMPONENT_KINDS) if (_TEMPLATES / (kind + _SUFFIX)).is_file()
)
"""Kinds that have a template of a component: ``templates/KIND.py.txt``."""

_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")

_CLASS_WORDS: Final = {"kv": "KV"}
"""Kinds whose word in the names of classes is not the capitalized kind."""

_REQUIREMENTS: Final = {"attention": ', "torch>=2.5"', "command": ', "click>=8.1"'}
"""Imports of a template beyond attrs and Batchwright."""

_TEST_ATTRIBUTES: Final = {
    "feature": 'says = "ada"\n    options = {"budget": 50, "tokens": 4}',
    "gate": 'options = {"tokens": 10, "requests": 1}',
    "limit": 'options = {"tokens": 8}',
    "resource": 'request_fields = {"adapter": "ada"}',
}
"""Attributes with which a component matters in the small workloads of its test."""


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
        capitalized, suffix = self.kind.capitalize(), self._class_word
        return f"My{suffix}" if words == capitalized else words.removesuffix(capitalized) + suffix

    def files(self) -> Mapping[str, str]:
        """The files, by their path in the distribution."""
        return {
            "pyproject.toml": self._filled("pyproject.toml.txt"),
            "README.md": self._filled("README.md.txt"),
            f"src/{self.package}/__init__.py": self.source(),
            f"src/{self.package}/py.typed": "",
            f"tests/test_{self.name.replace('-', '_')}.py": self._filled("test_component.txt"),
        }

    def source(self) -> str:
        """The module of the component."""
        return self._filled(self.kind + _SUFFIX)

    @property
    def _class_word(self) -> str:
        return _CLASS_WORDS.get(self.kind, self.kind.capitalize())

    def _filled(self, template: str) -> str:
        attributes = _TEST_ATTRIBUTES.get(self.kind, "")
        text = (_TEMPLATES / template).read_text(encoding="utf-8")
        return Template(text).substitute(
            kind=self.kind,
            name=self.name,
            distribution=self.distribution,
            package=self.package,
            component=self.component,
            conformance=f"{self._class_word}Conformance",
            attributes=f"\n    {attributes}" if attributes else "",
            requirements=_REQUIREMENTS.get(self.kind, ""),
            use=self._use(),
        )

    def _use(self) -> str:
        """The paragraph of the README that says how the component is used."""
        if self.kind in SELECTORS:
            section, _, option = SELECTORS[self.kind].partition(".")
            lines = f'[{section}]\n    {option} = "{self.name}"'
        elif self.kind in LIST_KINDS:
            lines = f'[[{self.kind}]]\n    use = "{self.name}"'
        else:  # a command
            return f"Installing it adds a command:\n\n    batchwright {self.name} --help"
        return (
            f"Installing it activates nothing; the TOML file does:\n\n    {lines}\n\n"
            f"Its options are listed by `batchwright plugins {self.kind} {self.name}`."
        )


def name_problem(name: str) -> str | None:
    """Say why a name cannot be a component's, or None."""
    if _NAME.fullmatch(name):
        return None
    return (
        f"{name!r} is no name of a component: expected a lower-case letter, then lower-case "
        "letters and digits, in words joined by '-'"
    )

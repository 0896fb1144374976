"""The generated reference is up to date and complete, and what it promises is tested."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

from batchwright.config.sections import section_types
from batchwright.hookspecs import COMPONENT_KINDS, HOOK_PREFIX
from batchwright.plugin_manager import PluginManager
from batchwright.protocols import Component, Lifecycle, WorkerSide
from batchwright.testing.conformance import CONFORMANCE
from batchwright_cli.reference.components import render_components
from batchwright_cli.reference.protocols import contract_methods, render_protocols

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
CONTRACTS = {**COMPONENT_KINDS, "": Component, "lifecycle": Lifecycle, "half": WorkerSide}
METHODS = [(kind, name) for kind, base in CONTRACTS.items() for name in contract_methods(base)]


def page(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "rendered"),
    [("protocols.md", render_protocols()), ("components.md", render_components())],
)
def test_generated_page_is_up_to_date(name: str, rendered: str) -> None:
    """`make reference` writes it anew."""
    assert rendered == page(name)


@pytest.mark.parametrize("kind", COMPONENT_KINDS)
def test_hook_has_a_heading_a_sentence_and_a_conformance_class(kind: str) -> None:
    assert f"\n## {kind}\n" in page("protocols.md")
    assert re.search(rf"\nHook `{HOOK_PREFIX}{kind}`: \w[^\n]+\.\n", page("protocols.md"))
    assert f"`{CONFORMANCE[kind].__name__}`" in page("protocols.md")


@pytest.mark.parametrize(("kind", "method"), METHODS)
def test_method_is_documented(kind: str, method: str) -> None:
    """In the reference, with a sentence of its own."""
    member = vars(CONTRACTS[kind])[method]
    assert member.__doc__, f"{kind}.{method} has no docstring"
    assert re.search(rf"^### `{method}[(`]", page("protocols.md"), re.MULTILINE)


SOURCES = {
    path: path.read_text(encoding="utf-8")
    for folder in (ROOT / "tests", ROOT / "core" / "batchwright" / "testing")
    for path in folder.rglob("*.py")
    if path != Path(__file__)
}


@pytest.mark.parametrize(("kind", "method"), METHODS)
def test_method_is_called_or_defined_by_a_test(kind: str, method: str) -> None:
    """By a conformance class or another test: called, spied on, or written in a component."""
    if method.startswith("__"):
        method = method.strip("_")  # len(free), iter(free)
        pattern = re.compile(rf"\b{method}\(free\)|def __{method}__")
    else:
        pattern = re.compile(rf"(?:\.|def |\"){method}\b")
    assert any(pattern.search(text) for text in SOURCES.values())


def test_every_option_of_a_section_is_in_the_reference() -> None:
    sections = re.split(r"^## \[(.*)\]$", page("configuration.md"), flags=re.MULTILINE)
    found = dict(zip(sections[1::2], sections[2::2], strict=True))
    for section, cls in section_types().items():
        missing = [f.name for f in attrs.fields(cls) if f"\n| `{f.name}` |" not in found[section]]
        assert missing == []


def test_every_option_of_a_component_is_in_the_reference_with_a_sentence() -> None:
    for registration in PluginManager.discover().registrations():
        if registration.distribution != "batchwright" or registration.kind == "command":
            continue
        _, _, after = page("components.md").partition(
            f"### {registration.kind} `{registration.name}`\n"
        )
        section = after.partition("\n### ")[0]
        assert section, registration
        for option in attrs.fields(registration.cls.Options):
            row = re.search(rf"^\| `{option.name}` \|.*\| (.+) \|$", section, re.MULTILINE)
            assert row, f"{registration.name}.{option.name}"

"""Write the reference page of hooks and protocols."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

from batchwright.config import SELECTORS
from batchwright.hookspecs import COMPONENT_KINDS, HOOK_PREFIX
from batchwright.protocols import Component, Lifecycle, WorkerSide
from batchwright.protocols.attention import LayerCall
from batchwright.scheduler import Step
from batchwright.testing.conformance import CONFORMANCE

__all__ = ["contract_methods", "render_protocols"]

_INTRODUCTION = """\
# Protocols

<!-- Generated from batchwright.hookspecs and batchwright.protocols; do not edit. -->

A plugin is a module with hooks; a hook returns classes; a class derives from the contract of
its kind and has a `name`. Hooks are called once, at start. A method that a component does not
override is never called. This page has every kind: its hook, its contract, and for each method
the time of its call, the allowed answers, and the cost class:

- **start**: once, when the scheduler is built.
- **event**: when something happens to a request; never for a decode.
- **step**: once a step.
- **candidate**: for each request that a scan looks at.
- **shortage**: when a request gets fewer tokens than its new tokens, or no blocks.

`batchwright.testing.conformance` has a class for each kind that checks all this.
"""

_COMPANIONS = {
    "attention": (LayerCall, "### The argument of `forward`: a `LayerCall`"),
    "feature": (WorkerSide, "### Its worker side"),
    "scheduler": (Step, "### The argument of `StepScheduler.plan`: a `Step`"),
}
"""By kind, a second class that its contract speaks of, and the heading of that."""

_OFFERS = {
    "scheduler": "Whole schedulers",
    "policy": "Scheduling policies",
    "gate": "Admission gates",
    "control": "Step controls",
    "limit": "Limits on scheduled tokens",
    "resource": "Resources beside KV",
    "victim": "Victims",
    "preemption": "Ways of preemption",
    "kv": "KV managers",
    "hasher": "Block hashes",
    "eviction": "Orders of the free blocks",
    "executor": "Executors",
    "attention": "Attention backends",
    "predictor": "Predictors",
    "estimator": "Estimators of step times",
    "workload": "Workloads of simulations",
    "feature": "Features",
    "observer": "Observers",
    "command": "Subcommands of `batchwright`",
}
"""Offers of the hook of each kind."""

_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields):$")
_ITEM = re.compile(r"^ {4}(\w+): (.*)$")


def render_protocols() -> str:
    """Write the reference page, as Markdown, of all hooks and contracts."""
    parts = [
        _INTRODUCTION,
        _contract(Component, "## Every component"),
        _contract(Lifecycle, "## Every component that decides or watches"),
    ]
    for kind, base in COMPONENT_KINDS.items():
        choice = (
            f"selected by `{SELECTORS[kind]}`" if kind in SELECTORS else f"listed as `[[{kind}]]`"
        )
        offer = _OFFERS[kind] if kind == "command" else f"{_OFFERS[kind]}, {choice}"
        head = [
            f"## {kind}",
            f"Hook `{HOOK_PREFIX}{kind}`: {offer}.",
            f"Contract `{base.__module__}.{base.__name__}`, checked by "
            f"`{CONFORMANCE[kind].__name__}`.",
        ]
        parts.append(_contract(base, "\n\n".join(head)))
        if kind in _COMPANIONS:
            parts.append(_contract(*_COMPANIONS[kind]))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def contract_methods(base: type[Any]) -> list[str]:
    """Names of the methods and properties that a contract itself declares."""
    return [
        name
        for name, member in vars(base).items()
        if (not name.startswith("_") or name in ("__len__", "__iter__"))
        and (inspect.isfunction(member) or isinstance(member, property))
    ]


def _contract(cls: type[Any], head: str) -> str:
    parts = [head, _markdown(inspect.cleandoc(cls.__doc__ or ""))]
    attributes = list(_attributes(cls))
    if attributes:
        parts.append("\n".join(attributes))
    for name in contract_methods(cls):
        member = vars(cls)[name]
        parts += [f"### {_signature(name, member)}", _markdown(inspect.getdoc(member) or "")]
    return "\n\n".join(part for part in parts if part)


def _attributes(cls: type[Any]) -> Iterator[str]:
    """Attributes that a docstring follows, as a list."""
    source = inspect.getsource(cls)
    found = re.finditer(r'^    (\w+): ClassVar\[.*\n    """((?:.|\n)*?)"""', source, re.MULTILINE)
    for match in found:
        yield f"- `{match[1]}`: {_inline(' '.join(match[2].split()))}"


def _signature(name: str, member: Any) -> str:
    if isinstance(member, property):
        return f"`{name}`"
    parameters = [p for p in inspect.signature(member).parameters.values() if p.name != "self"]
    names, starred = [], False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            names.append("*")
            starred = True
        default = "" if parameter.default is parameter.empty else "=..."
        names.append(f"{parameter.name}{default}")
    return f"`{name}({', '.join(names)})`"


def _markdown(doc: str) -> str:
    """A docstring with its sections as lists and its literals in single quotes."""
    lines, in_section = [], False
    for line in doc.splitlines():
        section = _SECTION.match(line)
        item = _ITEM.match(line) if in_section else None
        if section:
            in_section = True
            lines += [f"**{section[1]}**", ""]
        elif item:
            lines.append(f"- `{item[1]}`: {item[2]}")
        elif in_section and line.startswith("    "):
            lines.append(f"{'  ' if line.startswith('     ') else '- '}{line.strip()}")
        else:
            in_section = in_section and not line
            lines.append(line)
    return _inline("\n".join(_joined(lines)))


def _joined(lines: list[str]) -> Iterator[str]:
    """Continue an item that is a sentence over several lines, not a list."""
    previous = ""
    for line in lines:
        if line.startswith("- ") and previous.startswith("- ") and not line.startswith("- `"):
            line = f"  {line[2:]}"
        yield line
        previous = line if line.startswith("- ") else previous if line.startswith("  ") else ""


def _inline(text: str) -> str:
    return text.replace("``", "`")


if __name__ == "__main__":
    print(render_protocols(), end="")

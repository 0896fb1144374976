"""Read a TOML file, with overrides from the command line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from batchwright.config.config import LIST_KINDS, Config
from batchwright.exceptions import ConfigError
from batchwright.text_file import parse_toml, read_text

_STEP = re.compile(r"([A-Za-z0-9_-]+)|\[(\d+)\]")
_PATH = re.compile(r"[A-Za-z0-9_-]+(?:\[\d+\]|\.[A-Za-z0-9_-]+)*")


def load_config(path: Path | str | None, overrides: Sequence[str] = ()) -> Config:
    """Read a configuration.

    Args:
        path: The TOML file; None for the defaults alone.
        overrides: ``key.path=value`` each, applied in order; see ``apply_override``.

    Raises:
        ConfigError: The file cannot be read, or something in it or in an override is
            wrong; names all that is wrong.
    """
    table = {} if path is None else parse_toml(read_text(Path(path)), str(path))
    for override in overrides:
        apply_override(table, override)
    source = " ".join([str(path or ""), *(f"-o {override}" for override in overrides)])
    base_path = Path() if path is None else Path(path).parent
    config = Config.from_dict(table, base_path=base_path, source=source.strip())
    return attrs.evolve(config, file=None if path is None else Path(path))


def apply_override(table: dict[str, Any], override: str) -> None:
    """Set one value of a table.

    Args:
        table: Content of the TOML file; changed in place.
        override: ``key.path=value``, e.g. ``scheduler.policy=fair``,
            ``gate[0].fraction=0.1`` or ``gate.0.fraction=0.1``. The value is TOML; what is
            not is a string. The index after the last one of a list appends.

    Raises:
        ConfigError: It has another form, or leads through something that is no table.
    """
    key, sign, text = override.partition("=")
    key, source = key.strip(), f"-o {override}"
    if not sign or not _PATH.fullmatch(key):
        raise ConfigError("expected key.path=value, or list[0].key=value", source=source)
    steps: list[str | int] = [name or int(index) for name, index in _STEP.findall(key)]
    if steps[0] in LIST_KINDS and len(steps) > 1 and str(steps[1]).isdecimal():
        steps[1] = int(steps[1])
    if steps[0] in LIST_KINDS and steps[0] not in table:
        table[steps[0]] = [{"use": use.name} for use in getattr(Config(), steps[0])]
    holder: Any = table
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if isinstance(holder, list) and str(step).isdecimal():
            step = int(step)
        container: type[Any] = list if isinstance(step, int) else dict
        if not isinstance(holder, container):
            raise ConfigError(f"{holder!r} has no place for {step!r}", path=key, source=source)
        if isinstance(step, int):
            if step > len(holder):
                raise ConfigError(f"the list has only {len(holder)}", path=key, source=source)
            if step == len(holder):
                holder.append({})
        elif following is not None:
            holder.setdefault(step, [] if isinstance(following, int) else {})
        if following is None:
            holder[step] = _value(text.strip())
        else:
            holder = holder[step]


def _value(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return parsed["value"] if len(parsed) == 1 else text

"""Read a TOML file, with overrides from the command line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from batchwright.config import LIST_KINDS, Config
from batchwright.exceptions import ConfigError
from batchwright_plugins.text_file import read_text
from batchwright_plugins.toml_text import line_unless_given, parse_toml

_STEP: Final = re.compile(r"\[\d+\]|[A-Za-z0-9_-]+")
_KEY: Final = re.compile(r"[A-Za-z0-9_-]+(?:\[\d+\]|\.[A-Za-z0-9_-]+)*")


def read_config(path: Path | str | None, overrides: Sequence[str] = ()) -> Config:
    """Read a configuration; see ``batchwright.config.load_config``."""
    file = None if path is None else Path(path)
    text = "" if file is None else read_text(file)
    table = parse_toml(text, str(path))
    for override in overrides:
        apply_override(table, override)
    source = " ".join([str(path or ""), *(f"-o {override}" for override in overrides)]).strip()
    line_of = partial(line_unless_given, text, tuple(overrides))
    base_path = Path() if file is None else file.parent
    return Config(base_path=base_path, source=source, line_of=line_of, file=file).read(table)


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
    if not sign or not _KEY.fullmatch(key):
        raise ConfigError("expected key.path=value, or list[0].key=value", source=source)
    steps = _STEP.findall(key)
    if steps[0] in LIST_KINDS:
        table.setdefault(steps[0], [{"use": use.name} for use in getattr(Config(), steps[0])])
    holder: Any = table
    for step, following in pairwise([*steps, ""]):
        is_index = step[0] == "[" or (isinstance(holder, list) and step.isdecimal())
        place: Any = int(step.strip("[]")) if is_index else step
        container: type[Any] = list if is_index else dict
        if not isinstance(holder, container):
            raise ConfigError(f"{holder!r} has no place for {place!r}", path=key, source=source)
        if not is_index:
            holder.setdefault(place, [] if following[:1] == "[" else {})
        elif place > len(holder):
            raise ConfigError(f"the list has only {len(holder)}", path=key, source=source)
        elif place == len(holder):
            holder.append({})
        if not following:
            holder[place] = _value(text.strip())
        holder = holder[place]


def _value(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return parsed["value"] if len(parsed) == 1 else text

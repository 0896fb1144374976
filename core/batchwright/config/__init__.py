"""The configuration: TOML to attrs, strictly.

``load_config`` reads a file, ``Config.from_dict`` takes the same structure as a dict;
``batchwright.config.checks`` checks it against the model, and
``batchwright.component_checks`` against the plugins.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from pkgutil import resolve_name

from batchwright.config.config import Config
from batchwright.config.sections import Section
from batchwright.config.use import LIST_KINDS, SELECTORS, Use
from batchwright.default_plugins import READER

__all__ = ["LIST_KINDS", "SELECTORS", "Config", "Section", "Use", "load_config"]


def load_config(path: Path | str | None, overrides: Sequence[str] = ()) -> Config:
    """Read a configuration from a TOML file.

    Args:
        path: The file; None for the defaults alone.
        overrides: ``key.path=value`` each, applied in order, as after ``-o``.

    Raises:
        ConfigError: The file cannot be read, or something in it or in an override is
            wrong; names all that is wrong.
    """
    read: Callable[..., Config] = resolve_name(READER)
    return read(path, overrides)

"""Profiles that ship with Batchwright: measured step times of a model on a device.

Each is a folder of small tables; README.md says where they come from.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from batchwright.exceptions import ConfigError
from batchwright.suggest import did_you_mean
from batchwright_plugins.text_file import read_text
from batchwright_plugins.toml_text import parse_toml

__all__ = ["find_profile", "profile_names", "read_coefficients"]

_HERE = Path(__file__).parent


def profile_names() -> list[str]:
    """Names of the profiles that ship."""
    return sorted(path.name for path in _HERE.iterdir() if (path / "linear.toml").exists())


def find_profile(name: str, folder: Path, path: str) -> Path:
    """The folder of a profile.

    Args:
        name: Of one that ships, or a folder.
        folder: Start of a relative path.
        path: TOML path of the option that names it.

    Raises:
        ConfigError: There is none.
    """
    own = folder / Path(name).expanduser()
    if name in profile_names():
        return _HERE / name
    if own.is_dir():
        return own
    names = profile_names()
    hint = did_you_mean(name, names)
    raise ConfigError(
        f"there is no profile {name!r}.{hint} Profiles: {', '.join(names)}, or a folder", path=path
    )


def read_coefficients(file: Path, path: str) -> dict[str, Any]:
    """The coefficients of a linear fit.

    Args:
        file: A TOML file.
        path: TOML path of the option that names it.

    Raises:
        ConfigError: It cannot be read, or is no TOML.
    """
    return parse_toml(read_text(file, path), str(file))

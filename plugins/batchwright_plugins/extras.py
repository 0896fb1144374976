"""Words for installing an extra of Batchwright."""

from __future__ import annotations

__all__ = ["install_hint"]


def install_hint(extra: str) -> str:
    """The command that installs an extra.

    There is no release on an index yet, so it starts from a checkout.

    Args:
        extra: E.g. ``engine``.

    Returns:
        E.g. ``pip install -e '.[engine]' (in a checkout of Batchwright)``.
    """
    return f"pip install -e '.[{extra}]' (in a checkout of Batchwright)"

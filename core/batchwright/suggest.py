"""Did you mean: the name that a mistyped one comes closest to."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Suggest the closest choice.

    Args:
        name: The name as written.
        choices: Names that could have been meant.

    Returns:
        A sentence with a leading blank, e.g. ``" Did you mean 'fair'?"``; empty if
        nothing comes close.
    """
    from difflib import get_close_matches  # names are rarely wrong

    close = get_close_matches(str(name), list(choices), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""

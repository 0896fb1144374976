"""Files that a configuration reads, and a check that nothing is written over them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from batchwright.exceptions import ConfigError

if TYPE_CHECKING:
    from batchwright.config.config import Config

__all__ = ["files_read", "is_same_file", "prepare_output"]


def files_read(config: Config | None) -> Iterator[tuple[str, Path]]:
    """Files that a run of a configuration reads, each after the words that name it."""
    if config is None:
        return
    if config.file is not None:
        yield "the configuration", config.file
    for path in config.plugin_paths:
        yield "a plugin of plugins.load", path
    if config.run.prompts is not None:
        yield "the file of prompts", config.resolve(config.run.prompts)
    if config.model.path is not None:
        yield "the model", config.resolve(config.model.path)
    for name, options in config.options.get("workload", {}).items():
        if isinstance(options.get("path"), str):
            yield f"the file of the workload {name!r}", config.resolve(options["path"])


def is_same_file(one: Path, other: Path) -> bool:
    """Compare two paths by the files behind them: links and hard links are the same file."""
    try:
        return one.samefile(other)
    except OSError:  # one of them is not there yet
        return one.resolve() == other.resolve()


def prepare_output(path: Path, reads: Iterable[tuple[str, Path]], *, option: str = "") -> None:
    """Check a file that is to be written, and make its folder.

    Args:
        path: The file.
        reads: Files that are read, each after the words that name it.
        option: TOML path of the option that names the file, for messages.

    Raises:
        ConfigError: The file is one that is read, or its folder cannot be made.
    """
    for what, source in reads:
        if source.is_file() and is_same_file(path, source):
            problem = f"{path} is {what}, which is read; give another file"
            raise ConfigError(problem, path=option)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = "it is a file" if isinstance(error, FileExistsError) else error.strerror
        problem = f"cannot be written: {why}: {path.parent} cannot be made"
        raise ConfigError(problem, path=option, source="" if option else str(path)) from error

"""Files that a configuration reads, and a check that nothing is written over them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from batchwright.exceptions import ConfigError

if TYPE_CHECKING:
    from batchwright.config import Config

__all__ = ["create_output", "files_read", "files_taken", "is_same_file", "prepare_output"]

_NONE: Final[Mapping[str, str]] = {}


def files_read(config: Config | None) -> Iterator[tuple[str, Path]]:
    """Files that a run of a configuration reads, each after the words that name it."""
    if config is None:
        return
    if config.file is not None:
        yield "the configuration, which is read", config.file
    for path in config.plugin_paths:
        yield "a plugin of plugins.load, which is read", path
    for section in config.others.values():
        for option, words in section.files_read.items():
            path = getattr(section, option)
            if path is not None:
                yield f"{words}, which is read", config.resolve(path)
    if config.model.path is not None:
        yield "the model, which is read", config.resolve(config.model.path)
    for name, options in config.options.get("workload", {}).items():
        if isinstance(options.get("path"), str):
            what = f"the file of the workload {name!r}, which is read"
            yield what, config.resolve(options["path"])


def files_taken(
    config: Config | None, *, but: str = "", defaults: Mapping[str, str] = _NONE
) -> Iterator[tuple[str, Path]]:
    """Files that nothing else may be written to: ``files_read``, and those of observers.

    Args:
        config: The configuration.
        but: TOML path of an observer whose own file is left out.
        defaults: The ``path`` of observers that are given none, by name.
    """
    if config is None:
        return
    yield from files_read(config)
    for use in config.observer:
        path = use.options.get("path", defaults.get(use.name))
        if use.path != but and isinstance(path, str):
            yield f"the file of {use.path}", config.resolve(path)


def is_same_file(one: Path, other: Path) -> bool:
    """Compare two paths by the files behind them: links and hard links are the same file."""
    try:
        return one.samefile(other)
    except OSError:  # one of them is not there yet
        return one.resolve() == other.resolve()


def prepare_output(path: Path, taken: Iterable[tuple[str, Path]], *, option: str = "") -> None:
    """Check a file that is to be written, and make its folder.

    Args:
        path: The file.
        taken: Files that it may not be, each after the words that name it.
        option: TOML path of the option that names the file, for messages.

    Raises:
        ConfigError: The file is one of those, or its folder cannot be made.
    """
    for what, source in taken:
        if source.is_file() == source.exists() and is_same_file(path, source):
            problem = f"{path} is {what}; give another file"
            raise ConfigError(problem, path=option)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = "it is a file" if isinstance(error, FileExistsError) else error.strerror
        problem = f"cannot be written: {why}: {path.parent} cannot be made"
        raise ConfigError(problem, path=option, source="" if option else str(path)) from error


def create_output(path: Path, taken: Iterable[tuple[str, Path]], *, option: str) -> None:
    """Make an empty output file, so that a path that cannot be written is found at the start.

    Args: see ``prepare_output``.

    Raises:
        ConfigError: It cannot be written, or is read by the run.
    """
    prepare_output(path, taken, option=option)
    try:
        path.write_text("", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}: {path}", path=option) from error

"""Read a file of prompts: text lines, or JSON lines that bring options of their own."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from batchwright.exceptions import ConfigError
from batchwright.sampling_params import SamplingParams
from batchwright_engine.answering.prompt_line import LineError, PromptLine, parse_json_line
from batchwright_engine.sections import RunSection
from batchwright_plugins.text_file import decode_text, read_text

if TYPE_CHECKING:
    from batchwright.config import Config

__all__ = ["STDIN", "prompts_of", "read_prompts", "reading"]

STDIN: Final = "-"
"""The name that stands for standard input."""

_JSON_SUFFIXES: Final = (".jsonl", ".ndjson", ".json")
_KEY: Final = re.compile(r'"(?:prompt|messages|prompt_token_ids)"\s*:')
_MAX_SHOWN: Final = 10


def prompts_of(config: Config, given: Path | None) -> Path:
    """The file that ``--prompts`` names, or else ``run.prompts``.

    Raises:
        ConfigError: There is neither.
    """
    if given is not None:
        return given
    prompts = config.section(RunSection).prompts
    if prompts is None:
        problem = "a run needs prompts; name a file here or with --prompts"
        raise config.error("run.prompts", problem)
    return config.resolve(prompts)


def reading(config: Config, source: Path) -> Config:
    """Note which file the prompts are from, so that nothing is written over it."""
    prompts = None if str(source) == STDIN else str(source.absolute())
    return config.with_section(attrs.evolve(config.section(RunSection), prompts=prompts))


def read_prompts(path: Path, sampling: SamplingParams) -> list[PromptLine]:
    """Read all prompts of a file, and check every line.

    A file named ``*.jsonl``, ``*.ndjson`` or ``*.json`` holds one JSON object a line;
    standard input does if it begins with ``{``, and a file of another name if its first
    line begins so and has one of the keys ``prompt``, ``messages`` and
    ``prompt_token_ids``. Any other file holds one prompt a line. Blank lines are left out.

    Args:
        path: The file; ``-`` is standard input.
        sampling: Sampling parameters for lines without their own.

    Raises:
        ConfigError: The file cannot be read or holds no prompt, or lines of it are
            broken: names file, line and key of each, and what was expected.
    """
    name = "standard input" if str(path) == STDIN else str(path)
    text = _read(path, name)
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise ConfigError("holds no prompt", source=name)
    if _holds_json(path, lines[0][1]):
        if path.suffix.lower() == ".json" and lines[0][1].lstrip().startswith("["):
            problem = "expected one JSON object a line, got a JSON array; write its elements so"
            raise ConfigError(problem, source=f"{name}:{lines[0][0]}")
        return _unique(list(_parse(lines, sampling, name)), name)
    return [
        PromptLine(
            number=number, request_id=f"line-{number}", prompt=line.strip(), sampling=sampling
        )
        for number, line in lines
    ]


def _read(path: Path, name: str) -> str:
    if str(path) == STDIN:
        return decode_text(sys.stdin.buffer.read(), name)
    return read_text(path)


def _holds_json(path: Path, first_line: str) -> bool:
    if path.suffix.lower() in _JSON_SUFFIXES:
        return True
    begins = first_line.lstrip().startswith("{")
    return begins and (str(path) == STDIN or _KEY.search(first_line) is not None)


def _parse(
    lines: Sequence[tuple[int, str]], sampling: SamplingParams, name: str
) -> Iterator[PromptLine]:
    """Parse JSON lines; raise at the end of the file, for all that are broken."""
    broken: list[str] = []
    for number, line in lines:
        try:
            yield parse_json_line(line, number, sampling)
        except LineError as error:
            broken.append(f"{name}:{number}: {error}")
    _raise(broken)


def _unique(prompts: list[PromptLine], name: str) -> list[PromptLine]:
    seen: dict[str, int] = {}
    broken = []
    for prompt in prompts:
        first = seen.setdefault(prompt.request_id, prompt.number)
        if first != prompt.number:
            broken.append(
                f"{name}:{prompt.number}: id: {prompt.request_id!r} is the id of line "
                f"{first} already; ids must be unique"
            )
    _raise(broken)
    return prompts


def _raise(broken: list[str]) -> None:
    if len(broken) == 1:
        raise ConfigError(broken[0])
    if broken:
        shown = "".join(f"\n  {line}" for line in broken[:_MAX_SHOWN])
        more = len(broken) - _MAX_SHOWN
        rest = f"\n  and {more} more" if more > 0 else ""
        raise ConfigError(f"{len(broken)} broken lines:{shown}{rest}")

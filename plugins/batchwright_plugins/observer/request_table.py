"""Write a line for every request that ends."""

from __future__ import annotations

from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from attrs import frozen

from batchwright.exceptions import ConfigError
from batchwright.option import option
from batchwright.protocols import Observer
from batchwright_plugins.files import files_taken, prepare_output

if TYPE_CHECKING:
    from batchwright.context import Context
    from batchwright.request_view import RequestView

__all__ = ["COLUMNS", "RequestTable"]

COLUMNS: Final = (
    "request_id",
    "client",
    "arrival_s",
    "scheduled_s",
    "first_token_s",
    "finish_s",
    "prompt_tokens",
    "output_tokens",
    "max_tokens",
    "cached_tokens",
    "recomputed_tokens",
    "preemptions",
    "end",
    "detail",
    "oracles",
)
_HEADER: Final = ",".join(COLUMNS)
_NEEDS_QUOTES: Final = frozenset(',"\r\n')


@frozen
class Options:
    """Options of the table of requests."""

    path: str = option(
        "requests.csv", "Output file, relative to the TOML file; an old one is replaced."
    )


class RequestTable(Observer):
    """A CSV file with a line for every request that has ended, in the order of their ends.

    Times are seconds on the scheduler's clock, as shortest exact decimals; empty for events
    that never happened. ``cached_tokens`` were found at first admission. ``end`` is ``stop``,
    ``length``, ``abort``, ``error`` or ``refused``. ``oracles`` names the components that know
    more in a simulation than in service.
    """

    name = "request-table"
    Options = Options

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        self._file: IO[str] | None = None
        self._stamp = ""

    def setup(self) -> None:
        """Open the file.

        Raises:
            ConfigError: It cannot be written.
        """
        path = self.ctx.folder / Path(self.options.path).expanduser()
        defaults = {self.name: Options().path}
        taken = files_taken(self.ctx.config, but=self.ctx.path, defaults=defaults)
        prepare_output(path, taken, option=f"{self.ctx.path}.path")
        try:
            self._file = path.open("w", encoding="utf-8", errors="replace", newline="\n")
        except OSError as error:
            raise ConfigError(
                f"cannot be written: {error.strerror}: {path}", path=f"{self.ctx.path}.path"
            ) from error
        self._file.write(f"{_HEADER}\n")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def stamp(self, oracles: str) -> None:
        """Say in every line what knows more than it can know elsewhere."""
        self._stamp = _quoted(oracles)

    def on_finish(self, request: RequestView) -> None:
        finish = request.finish
        assert finish is not None
        self._write(request, finish.reason, finish.detail)

    def refused(self, request: RequestView, reason: str) -> None:
        """Write down a request that was never added."""
        self._write(request, "refused", reason)

    def _write(self, request: RequestView, end: str, detail: str) -> None:
        assert self._file is not None, "setup() was called"
        client, scheduled = request.client, request.scheduled_time
        first, finish = request.first_token_time, request.finish_time
        cached = request.num_cached_tokens
        self._file.write(
            f"{_quoted(request.request_id)},{'' if client is None else _quoted(client)},"
            f"{request.arrival_time!r},{'' if scheduled is None else repr(scheduled)},"
            f"{'' if first is None else repr(first)},{'' if finish is None else repr(finish)},"
            f"{request.num_prompt_tokens},{request.num_output_tokens},{request.max_tokens},"
            f"{'' if cached is None else cached},{request.num_recomputed_tokens},"
            f"{request.num_preemptions},{end},{_quoted(detail)},{self._stamp}\n"
        )


def _quoted(text: str) -> str:
    if _NEEDS_QUOTES.isdisjoint(text):
        return text
    doubled = text.replace('"', '""')
    return f'"{doubled}"'

"""The group of all commands: lists them without importing what they need."""

from __future__ import annotations

import errno
import io
import logging
import signal
import sys
from functools import cached_property
from typing import Any

import click

from batchwright.default_plugins import COMMAND_PLUGIN
from batchwright.exceptions import OUTSIDE, BatchwrightError, ConfigError, ModelError, PluginError
from batchwright.plugin_checks import describe_error
from batchwright.plugin_manager import PluginManager
from batchwright.version import VERSION
from batchwright_engine.signals import Interrupted, catching, interrupt


class CommandGroup(click.Group):
    """A click group over everything that is registered as a command.

    Of the plugins that ship with Batchwright only the one with the commands is imported
    to list them; those found by entry point are imported all, since any of them may
    offer one. A BatchwrightError ends a command with its message: exit code 2 if the
    configuration or a plugin is at fault, else 1. So does what the system refuses. A signal
    that no command handles ends it after its clean-up: exit code 128 and the signal's number.
    """

    @cached_property
    def plugins(self) -> PluginManager:
        """Plugins that offer commands."""
        return PluginManager.discover(defaults=(COMMAND_PLUGIN,), refuse_broken=False)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return self.plugins.names("command")

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        found = self.plugins.find("command", cmd_name)
        try:
            command: click.Command = found.cls().build()
        except (BatchwrightError, *OUTSIDE):
            raise
        except BaseException as error:
            what = f"the command {cmd_name!r} cannot be built: {describe_error(error)}"
            label = found.distribution_label
            raise PluginError(what, plugin=found.plugin, distribution=label) from error
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not ctx.resilient_parsing and not args[0].startswith("-"):
            try:
                self.plugins.find("command", args[0])
            except PluginError as error:
                ctx.fail(error.message)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write name and ``help`` of each command, without building any."""
        commands = self.plugins.registrations("command")
        with formatter.section("Commands"):
            formatter.write_dl([(command.name, command.cls.help) for command in commands])
        if self.plugins.broken:
            num_faults = len(self.plugins.broken)
            faults = "1 fault" if num_faults == 1 else f"{num_faults} faults"
            formatter.write_paragraph()
            formatter.write_text(f"{faults} in plugins: see `batchwright plugins`.")

    def invoke(self, ctx: click.Context) -> Any:
        _escape_what_has_no_encoding()
        try:
            with catching(interrupt):
                return super().invoke(ctx)
        except click.UsageError as error:
            hint = _how_a_configuration_is_given(error)
            if not hint:
                raise
            message = f"{error.message.rstrip('.')}. {hint}"
            raise click.UsageError(message, error.ctx) from error
        except KeyboardInterrupt as error:
            click.echo("Interrupted.", err=True)
            number = error.number if isinstance(error, Interrupted) else signal.SIGINT
            raise SystemExit(128 + number) from None
        except BatchwrightError as error:
            if ctx.params["debug"]:
                raise
            is_misuse = isinstance(error, ConfigError | ModelError | PluginError)
            raise (_Misuse if is_misuse else click.ClickException)(str(error)) from error
        except OSError as error:  # a disk that is full, a file that may not be read
            if ctx.params["debug"] or error.errno == errno.EPIPE:
                raise
            where = f"{error.filename}: " if error.filename else ""
            raise click.ClickException(f"{where}{error.strerror or error}") from error


def _how_a_configuration_is_given(error: click.UsageError) -> str:
    """Say how the command takes its TOML file, if it was given the other way; else nothing."""
    if error.ctx is None:
        return ""
    params = error.ctx.command.params
    if isinstance(error, click.NoSuchOption):
        files = [param.human_readable_name for param in params if param.name == "file"]
        if files and error.option_name == "--config":
            return f"Give the TOML file alone: {error.ctx.command_path} {files[0]}"
    elif ".toml)" in error.message and any("--config" in param.opts for param in params):
        return "Give the TOML file as --config FILE"
    return ""


def _escape_what_has_no_encoding() -> None:
    """Have text that a terminal or a pipe cannot take escaped, as on standard error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


class _Misuse(click.ClickException):
    exit_code = 2


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="batchwright")
@click.option(
    "--debug", is_flag=True, envvar="BATCHWRIGHT_DEBUG", help="Show tracebacks of errors."
)
def main(debug: bool) -> None:
    """Schedule LLM inference with plugins: every choice is named in a TOML file."""
    if debug:  # faults of components are logged with their tracebacks then
        logging.getLogger("batchwright.faults").setLevel(logging.DEBUG)

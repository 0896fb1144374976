"""``python -m batchwright``: the command line, which is a plugin like all others."""

from importlib import import_module

from batchwright.default_plugins import COMMAND_PLUGIN

import_module(f"{COMMAND_PLUGIN}.group").main(prog_name="batchwright")

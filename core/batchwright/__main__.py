"""``python -m batchwright``: the command line, which is a plugin like all others."""

from importlib import import_module

from batchwright.default_plugins import MAIN

import_module(MAIN).main(prog_name="batchwright")

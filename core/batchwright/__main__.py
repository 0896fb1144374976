"""``python -m batchwright``."""

from batchwright.cli import main

main(prog_name="batchwright")

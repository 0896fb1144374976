"""An observer that says when a run is at a place, and waits there for a signal."""

import os
import signal

import attrs
from batchwright.plugin import hookimpl

from batchwright.option import option
from batchwright.protocols import Observer


@attrs.frozen
class Options:
    finished: int = option(0, "Requests that have ended then; 0: none is begun.", ge=0)
    pipe: int = option(2, "The file descriptor that gets a line there.", ge=0)


class Waits(Observer):
    name = "waits"
    Options = Options

    def setup(self):
        self.left = self.options.finished
        if not self.left:
            self.wait()

    def on_finish(self, request):
        self.left -= 1
        if not self.left:
            self.wait()

    def wait(self):
        come, there = os.pipe()
        os.set_blocking(there, False)
        signal.set_wakeup_fd(there)
        os.write(self.options.pipe, b"here\n")
        os.read(come, 1)


@hookimpl
def batchwright_register_observer():
    return [Waits]

"""Fixtures for the tests of every plugin that ships with Batchwright."""

from __future__ import annotations

from batchwright_engine.executor.cpu_threads import quiet_openmp

# Before any test module imports torch: threads that spin while they wait make tests ten
# times slower on a machine that has other work to do.
quiet_openmp()

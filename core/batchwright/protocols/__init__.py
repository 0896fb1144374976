"""The contracts of every kind of component: one module a kind."""

from batchwright.protocols.contracts import *  # noqa: F403

"""Waiting queues that policies choose from: keyed, grouped, windowed."""

from batchwright.queues.base import Ticket, WaitingQueue, as_sort_key
from batchwright.queues.grouped import GroupedQueue
from batchwright.queues.keyed import KeyedQueue
from batchwright.queues.window import WindowQueue

__all__ = ["GroupedQueue", "KeyedQueue", "Ticket", "WaitingQueue", "WindowQueue", "as_sort_key"]

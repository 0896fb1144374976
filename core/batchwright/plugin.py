"""The names that an author of plugins imports.

::

    from batchwright.plugin import ADMIT, Gate, Stop, hookimpl, option

Contracts of all kinds, verdicts, views, messages, and what options and hooks are declared
with. What is not here is private, but for ``batchwright`` (drive a scheduler) and
``batchwright.testing`` (test a component).
"""

from batchwright.clock import Clock as Clock
from batchwright.context import Context as Context
from batchwright.context import Sizes as Sizes
from batchwright.exceptions import BatchwrightError as BatchwrightError
from batchwright.exceptions import ConfigError as ConfigError
from batchwright.exceptions import ExecutorError as ExecutorError
from batchwright.exceptions import InvariantError as InvariantError
from batchwright.exceptions import ModelError as ModelError
from batchwright.exceptions import PluginError as PluginError
from batchwright.exceptions import RequestRefusedError as RequestRefusedError
from batchwright.hookspecs import hookimpl as hookimpl
from batchwright.lazy_component import LazyComponent as LazyComponent
from batchwright.messages import BlockCopy as BlockCopy
from batchwright.messages import ModelOutput as ModelOutput
from batchwright.messages import NewRequestData as NewRequestData
from batchwright.messages import SchedulerOutput as SchedulerOutput
from batchwright.messages import StepOutputs as StepOutputs
from batchwright.option import option as option
from batchwright.protocols.contracts import *  # noqa: F403
from batchwright.queues import GroupedQueue as GroupedQueue
from batchwright.queues import KeyedQueue as KeyedQueue
from batchwright.queues import Ticket as Ticket
from batchwright.queues import WaitingQueue as WaitingQueue
from batchwright.queues import WindowQueue as WindowQueue
from batchwright.request import CacheKey as CacheKey
from batchwright.request import Finish as Finish
from batchwright.request import Request as Request
from batchwright.request import RequestStatus as RequestStatus
from batchwright.request_view import RequestView as RequestView
from batchwright.sampling_params import SamplingParams as SamplingParams
from batchwright.scheduler import Step as Step
from batchwright.scheduler import StepScheduler as StepScheduler
from batchwright.step_record import StepRecord as StepRecord
from batchwright.step_view import Running as Running
from batchwright.step_view import StepView as StepView
from batchwright.verdicts import *  # noqa: F403

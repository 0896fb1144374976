"""Batchwright: a plugin framework for scheduling LLM inference.

What is exported here is for programs that drive a scheduler. ``batchwright.plugin`` is for
authors of plugins, ``batchwright.testing`` for tests of components; everything else is
private.
"""

from batchwright.clock import Clock as Clock
from batchwright.clock import MonotonicClock as MonotonicClock
from batchwright.clock import VirtualClock as VirtualClock
from batchwright.exceptions import BatchwrightError as BatchwrightError
from batchwright.exceptions import ConfigError as ConfigError
from batchwright.exceptions import ExecutorError as ExecutorError
from batchwright.exceptions import ModelError as ModelError
from batchwright.exceptions import PluginError as PluginError
from batchwright.exceptions import RequestRefusedError as RequestRefusedError
from batchwright.exceptions import StepError as StepError
from batchwright.messages import ModelOutput as ModelOutput
from batchwright.messages import RequestOutput as RequestOutput
from batchwright.messages import SchedulerOutput as SchedulerOutput
from batchwright.messages import StepOutputs as StepOutputs
from batchwright.request import Request as Request
from batchwright.request import RequestStatus as RequestStatus
from batchwright.sampling_params import SamplingParams as SamplingParams
from batchwright.scheduler import Scheduler as Scheduler
from batchwright.version import VERSION

__version__ = VERSION

from attrs import frozen

from batchwright import SchedulingPolicy, hookimpl
from batchwright.option import option


@frozen
class Options:
    aging: float = option(10.0, "What one second of waiting is worth.", unit="tokens", ge=0)


class ShortestPrompt(SchedulingPolicy):
    """Shortest prompt first, with aging so that nobody waits for ever."""

    name = "shortest-prompt"
    Options = Options

    def key(self, request):
        return request.num_prompt_tokens + self.options.aging * request.arrival_time


@hookimpl
def batchwright_register_policy():
    return [ShortestPrompt]

from attrs import frozen
from batchwright.plugin import SchedulingPolicy, hookimpl, option


@frozen
class Options:
    aging: float = option(10.0, "Weight of a second of waiting.", unit="tokens", ge=0)


class ShortestPrompt(SchedulingPolicy):
    """Shortest prompt first, with aging, so that every request is served."""

    name = "shortest-prompt"
    Options = Options

    def key(self, request):
        return request.num_prompt_tokens + self.options.aging * request.arrival_time


@hookimpl
def batchwright_register_policy():
    return [ShortestPrompt]

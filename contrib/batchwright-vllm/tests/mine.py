"""A third party's components in a single file."""

from batchwright.plugin import (
    ADMIT,
    Caps,
    Control,
    Gate,
    Hasher,
    Limit,
    Observer,
    Reject,
    SchedulingPolicy,
    StepScheduler,
    Victim,
    Wait,
    hookimpl,
)


class Longest(SchedulingPolicy):
    """Longest prompt first."""

    name = "longest"

    def key(self, request):
        return -request.num_prompt_tokens


class Fails(SchedulingPolicy):
    """Fails on requests of one client."""

    name = "fails"

    def key(self, request):
        if request.client == "bad":
            raise ValueError("no such client")
        return 0


class NoAccount(SchedulingPolicy):
    """Has no account for requests of one client."""

    name = "no-account"

    def account(self, request):
        if request.client == "bad":
            raise ValueError("no account")
        return request.client


class Door(Gate):
    """Requests wait for a key."""

    name = "door"

    def pre_filter(self, request, view):
        if request.hints.get("waits"):
            return Wait("opened", reason="the door is closed")
        return ADMIT


class Refuses(Gate):
    """Rejects requests of one client."""

    name = "refuses"

    def pre_filter(self, request, view):
        return Reject("not this client") if request.client == "bad" else ADMIT


class Never(Gate):
    """Never opens."""

    name = "never"

    def open(self, view):
        return False


class Half(Limit):
    """Cuts prompts."""

    name = "half"

    def max_tokens(self, request, num_new_tokens, view):
        return max(1, num_new_tokens // 2)


class OneAtATime(Control):
    """Admits one request a step."""

    name = "one-at-a-time"

    def caps(self, view):
        return Caps(num_admissions=1)


class Broken(Control):
    """Raises."""

    name = "broken"

    def caps(self, view):
        raise RuntimeError("no caps")


class Youngest(Victim):
    """The request with the least known tokens."""

    name = "least-known"

    def choose(self, running, request, view):
        return min(running, key=lambda one: one.num_tokens)


class Mine(StepScheduler):
    """Another loop."""

    name = "mine"

    def plan(self, step):
        step.admit()


class MyHasher(Hasher):
    """Another hash."""

    name = "mine"
    digest_size = 32

    def digest(self, data):
        return bytes(32)


class Stops(Observer):
    """Raises at the second step."""

    name = "stops"

    def on_step(self, record):
        if record.plan.step_id:
            raise RuntimeError("it breaks")


@hookimpl
def batchwright_register_policy():
    return [Longest, Fails, NoAccount]


@hookimpl
def batchwright_register_scheduler():
    return [Mine]


@hookimpl
def batchwright_register_hasher():
    return [MyHasher]


@hookimpl
def batchwright_register_gate():
    return [Door, Refuses, Never]


@hookimpl
def batchwright_register_limit():
    return [Half]


@hookimpl
def batchwright_register_control():
    return [OneAtATime, Broken]


@hookimpl
def batchwright_register_victim():
    return [Youngest]


@hookimpl
def batchwright_register_observer():
    return [Stops]

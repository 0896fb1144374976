"""Random requests that arrive while others run: the same ones for the same seed."""

from __future__ import annotations

import random
from typing import Any

from batchwright.request import Request
from batchwright.testing.requests import make_request, prompt_tokens

_CLIENTS = (None, "ada", "grace", "edsger")
_CLASSES = (None, "interactive", "batch")


def random_arrivals(
    seed: int, *, num_requests: int = 40, longest: int = 40, **fields: Any
) -> dict[int, list[Request]]:
    """Make requests with shared prefixes, clients, groups, deadlines, priorities.

    Each field is left out of some, and several arrive in the same step.

    Args:
        seed: Another seed is another workload.
        num_requests: Their number.
        longest: Longest prompt (tokens).
        fields: Fields of Request that all of them get.

    Returns:
        By the step before which they arrive, for ``drive``.
    """
    chance = random.Random(f"arrivals/{seed}")
    arrivals: dict[int, list[Request]] = {}
    step = 0
    for number in range(num_requests):
        step += chance.choice((0, 0, 0, 1, 1, 3))
        shared = prompt_tokens(f"family {chance.randrange(3)}", longest)
        own = prompt_tokens(f"{seed}/{number}", longest)
        num_shared = chance.randrange(longest // 2)
        prompt = shared[:num_shared] + own[: chance.randint(1, longest - num_shared)]
        request = make_request(
            f"r{number}", prompt, chance.choice((1, 2, 5, 20, 40)), **_context(chance), **fields
        )
        arrivals.setdefault(step, []).append(request)
    return arrivals


def odd_requests(**fields: Any) -> list[Request]:
    """Make requests that are legal and unusual: as short, bare or odd as allowed.

    Args:
        fields: Fields of Request that all of them get.
    """
    odd: list[dict[str, Any]] = [
        {},
        {"arrival_time": 0.0},
        {"arrival_time": -1e9, "deadline": -1.0},
        {"arrival_time": 1e9, "deadline": 0.0},
        {"priority": -(2**40)},
        {"priority": 2**40, "client": ""},
        {"client": "名前 \N{GRINNING FACE}", "group": "", "slo_class": ""},
        {"group": "alone", "hints": {"": None, "nested": {"list": [1, 2]}}},
        {"cache_salt": "salt", "adapter": None},
    ]
    found = [
        make_request(f"odd{number}", [7], 1, **{**case, **fields})
        for number, case in enumerate(odd)
    ]
    twins = [
        make_request(f"twin{n}", [1, 2, 3], 3, **{**fields, "arrival_time": 5.0}) for n in (1, 2)
    ]
    endless = make_request("no cap", [5], None, sampling={"stop_token_ids": range(997)}, **fields)
    return [*found, *twins, endless]


def _context(chance: random.Random) -> dict[str, Any]:
    """Return the fields of a request beside its prompt."""
    client, slo_class = chance.choice(_CLIENTS), chance.choice(_CLASSES)
    return {
        "client": client,
        "slo_class": slo_class,
        "group": chance.choice((None, f"{client}'s program")),
        "priority": chance.choice((0, 0, 1, 2)),
        "deadline": chance.choice((None, chance.uniform(0, 200))),
    }

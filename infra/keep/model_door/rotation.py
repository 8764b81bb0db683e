"""Which model is asked when one has failed; pure.

A model is asked twice before the next one, when what went wrong may pass (p1 p1 p2 p2). The second time waits as long
as the provider asks, or goes to the next model when that is too long. A model whose key is refused, or that
lacks what is asked for, is left at once.
What another model would not make better ends the call: a request that is wrong or too long, a budget used up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

PASSING = frozenset(["rate_limited", "unavailable", "provider_error"])
"""Types of `conversation.ERROR_TYPES` that may be gone at the next try."""
REFUSED_KEY = "authentication"
LACKS = "tool_unavailable"
LEFT_AT_ONCE = frozenset([REFUSED_KEY, LACKS])
"""Another model may do what this one never will."""
TRIES = 2
PAUSE_SECONDS = 1.0
"""Before the second try, when the provider asks for no wait."""
MOST_WAIT_SECONDS = 20.0
"""For a longer wait the next model is asked instead."""
BEGIN_SECONDS = 900.0
"""No try begins later than this after the first one: the client waits for 1800."""


class FailedTry(NamedTuple):
    """One try that gave no completion."""

    model: int
    """Its place in the list."""
    type: str
    retry_after_seconds: float | None = None


class Try(NamedTuple):
    """The next one."""

    model: int
    wait_seconds: float = 0.0


def next_try(failed: Sequence[FailedTry], models: int, elapsed_seconds: float) -> Try | None:
    """What follows these tries, oldest first; None when the call has failed. With a single model nothing is tried
    again: the runner has the patience."""
    if not failed:
        return Try(0)
    last = failed[-1]
    if models < 2 or last.type not in PASSING | LEFT_AT_ONCE:
        return None
    tries = sum(each.model == last.model for each in failed)
    wait = PAUSE_SECONDS if last.retry_after_seconds is None else last.retry_after_seconds
    again = last.type in PASSING and tries < TRIES and wait <= MOST_WAIT_SECONDS
    following = Try(last.model, wait) if again else Try(last.model + 1)
    in_time = elapsed_seconds + following.wait_seconds <= BEGIN_SECONDS
    return following if following.model < models and in_time else None


def decisive(failed: Sequence[FailedTry]) -> int:
    """Which of the tries of a failed call its failure is: the last when it ended the call by itself, else the first of
    a model that could have answered."""
    if failed[-1].type not in PASSING | LEFT_AT_ONCE:
        return len(failed) - 1
    return next((place for place, each in enumerate(failed) if each.type != LACKS), 0)

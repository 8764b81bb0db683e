"""Which model is asked when one has failed; pure.

A model is asked twice before the next one, when what went wrong may pass (p1 p1 p2 p2). The second time waits as long
as the provider asks, or goes to the next model when that is too long. A model whose key is refused is left at once.
What another model would not make better ends the call: a request that is wrong or too long, a budget used up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from infra.keep.model_door.model import CallFailure

PASSING = frozenset(["rate_limited", "unavailable", "provider_error"])
"""Types of `conversation.ERROR_TYPES` that may be gone at the next try."""
REFUSED_KEY = "authentication"
TRIES = 2
PAUSE_SECONDS = 1.0
"""Before the second try, when the provider asks for no wait."""
MOST_WAIT_SECONDS = 20.0
"""For a longer wait the next model is asked instead."""
BEGIN_SECONDS = 900.0
"""No try begins later than this after the first one: the client waits for 1800."""
MAX_OTHERS_CHARACTERS = 2000


class FailedTry(NamedTuple):
    """One try that gave no completion."""

    model: int
    """Its place in the list."""
    failure: CallFailure


class Try(NamedTuple):
    """The next one."""

    model: int
    wait_seconds: float = 0.0


def next_try(failed: Sequence[FailedTry], models: int, elapsed_seconds: float) -> Try | None:
    """What follows these tries, oldest first; None when the call has failed. With a single model nothing is tried
    again: the runner has the patience."""
    if not failed:
        return Try(0)
    place, failure = failed[-1]
    if models < 2 or failure.type not in PASSING | {REFUSED_KEY}:
        return None
    tries = sum(each.model == place for each in failed)
    wait = PAUSE_SECONDS if failure.retry_after_seconds is None else failure.retry_after_seconds
    again = failure.type in PASSING and tries < TRIES and wait <= MOST_WAIT_SECONDS
    following = Try(place, wait) if again else Try(place + 1)
    in_time = elapsed_seconds + following.wait_seconds <= BEGIN_SECONDS
    return following if following.model < models and in_time else None


def failure_of_all(failed: Sequence[FailedTry], names: Sequence[str]) -> CallFailure:
    """What a call that has failed comes to: the last failure when it ended the call by itself, else the first one, with
    what the other models (`names`: of all) said."""
    ended_it = failed[-1].failure.type not in PASSING | {REFUSED_KEY}
    place, chosen = failed[-1] if ended_it else failed[0]
    others = dict.fromkeys(f"{names[n]}: {why.type}: {why.message}" for n, why in failed if n != place)
    if others:
        chosen.message += f" (and of the other models: {'; '.join(others)})"[:MAX_OTHERS_CHARACTERS]
    return chosen

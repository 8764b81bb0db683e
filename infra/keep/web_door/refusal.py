"""Why a request to the web door comes to nothing, as a failure of `shared.door`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from infra.shared.door import Failure

ANSWERED = "answered"
"""Flag of a refusal that came after a site had answered: what it says may hold words of the site's."""


class WebRefusal(Exception):
    """`flags` say in the trace which rule or bound it was."""

    def __init__(self, error: Failure, *flags: str) -> None:
        super().__init__(error.message)
        self.error = error
        self.flags = flags


def invalid(message: str, hint: str = "") -> WebRefusal:
    return WebRefusal(Failure("validation_error", message, hint=hint))


def denied(message: str, hint: str, *flags: str) -> WebRefusal:
    return WebRefusal(Failure("policy_denied", message, hint=hint), *flags)


def failed(message: str, hint: str = "", retriable: bool = False) -> WebRefusal:
    return WebRefusal(Failure("execution_error", message, retriable, hint=hint))


def late(message: str, hint: str = "") -> WebRefusal:
    return WebRefusal(Failure("tool_timeout", message, True, hint=hint))


def unavailable(message: str, hint: str = "", retriable: bool = True) -> WebRefusal:
    return WebRefusal(Failure("tool_unavailable", message, retriable, hint=hint))


@contextlib.contextmanager
def after_an_answer(has_answered: bool = True) -> Iterator[None]:
    """What is refused within is marked as such."""
    try:
        yield
    except WebRefusal as refusal:
        if has_answered and ANSWERED not in refusal.flags:
            refusal.flags += (ANSWERED,)
        raise

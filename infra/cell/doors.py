"""The cell's side of the three doors. Whoever asks gets an answer, `Refused`, or `DoorAway` after three tries."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from infra.shared.door import DoorAway, DoorRequest, Failure, ask

T = TypeVar("T")

PAUSES_SECONDS = (0.2, 1.0)
"""Between the tries: a door that restarts is back within a second."""
KEEP_SECONDS = 70.0
"""The git door may wait for git, and for others that move main; its own calls end after a minute."""


class Refused(Exception):
    """The door said no, in words for the model."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def asked(
    path: str,
    request: DoorRequest,
    shape: type[T],
    seconds: float,
    pause: Callable[[float], None] = time.sleep,
    pauses: tuple[float, ...] = PAUSES_SECONDS,
) -> T:
    """Raises Refused and DoorAway; of the git door also the latter for what may succeed later."""
    trouble = ""
    for wait in (*pauses, None):
        try:
            answer = ask(path, request, shape, seconds)
        except DoorAway as error:
            trouble = str(error)
        else:
            if not isinstance(answer, Failure):
                return answer
            if not answer.retriable:
                raise Refused(answer)
            trouble = answer.message
        if wait is not None:
            pause(wait)
    raise DoorAway(trouble)

"""How a process that was asked to end breaks off what may take long, and nothing else.

The signal handler only notes the request; it raises in the one place that a `with interruption:` block marks, so
that a push or a file is never left halfway. Which signal it is, and what is done then, is the life's business."""

from __future__ import annotations

from types import TracebackType


class Interrupted(BaseException):
    """The process was asked to end. No `except Exception` may take it for trouble."""


class Interruption:
    """Whether the process was asked to end, and whether what it does now may be broken off."""

    def __init__(self) -> None:
        self.asked = False
        self._depth = 0

    def ask(self) -> None:
        """Note the request; raises Interrupted when the code that is running now said that it may be broken off."""
        if not self.asked:
            self.asked = True
            if self._depth:
                raise Interrupted

    def check(self) -> None:
        """Raises Interrupted when the process was asked to end."""
        if self.asked:
            raise Interrupted

    def __enter__(self) -> None:
        self._depth += 1  # before the look, or a request between the two would be missed
        if self.asked:
            self._depth -= 1
            raise Interrupted

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1

"""Whether this run's work has read the web, by the keep's word; asked before an act that it matters for. The keep
knows work by its directives, so a run that is resumed or handed over is tainted like the one before."""

from __future__ import annotations

import time
from collections.abc import Callable

from infra.cell.runner.retry import answered
from infra.shared import door
from infra.shared.requests import AskTaint, Later, Refused, TaintedBy

ASK_SECONDS = 20.0


class WebTaint:
    """Of one run: it is never lifted."""

    def __init__(
        self, request_socket: str, note: Callable[..., None], pause: Callable[[float], None] = time.sleep
    ) -> None:
        """`note` writes a line into the log."""
        self._request_socket, self._note = request_socket, note
        self._pause = pause
        self._origins: tuple[str, ...] = ()
        self.held: tuple[str, ...] = ()
        """Of the mind: what waits for the PM's word, at the last question."""

    def origins(self) -> tuple[str, ...]:
        """Empty for none. Raises OSError when the keep does not say: then the act is not made."""
        if self._origins:
            return self._origins
        match answered(lambda: door.ask(self._request_socket, AskTaint(), ASK_SECONDS), self._pause):
            case TaintedBy(origins, held):
                self.held = held
                if origins:
                    self._note("run.tainted", origins=origins)
                self._origins = origins
                return origins
            case Refused():  # a keep of the version before, which has no web door
                return ()
            case other:
                reason = other.why if isinstance(other, Later) else "its reply is not an answer"
                raise OSError(f"whether the web was read cannot be told: the git door: {reason}; try again later")

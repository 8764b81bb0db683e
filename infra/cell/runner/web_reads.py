"""What the web door served to a run, and whether the agent is tainted by the web: by the keep's word, whenever it
matters."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from infra.cell import door
from infra.cell.runner.retry import answered
from infra.shared.requests import AskTaint, Later, TaintedBy

ASK_SECONDS: Final = 20.0


class WebReads:
    """Of one run."""

    def __init__(
        self, request_socket: str, began: float | None = None, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self.began = time.time() if began is None else began
        """When the run began; a resumed one as well."""
        self._request_socket, self._pause = request_socket, pause

    def origins(self) -> tuple[str, ...]:
        """Whose text the run was served. Raises OSError when the keep does not say."""
        return self._ask().origins

    def is_tainted(self) -> bool:
        """Whether the agent is, by this run or an earlier one. Raises OSError when the keep does not say."""
        return self._ask().is_tainted

    def _ask(self) -> TaintedBy:
        since = max(0, int(self.began))
        reply = answered(lambda: door.ask(self._request_socket, AskTaint(since), ASK_SECONDS), self._pause)
        if isinstance(reply, TaintedBy):
            return reply
        reason = reply.why if isinstance(reply, Later) else "its reply is not an answer"
        raise OSError(f"whether the web was read cannot be told: the git door: {reason}; try again later")

"""The runner's log: events `dotted.past_tense` with their facts, one JSON object a line on stderr, which the watcher
has pointed at logs/errors.log."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import structlog
from structlog.typing import EventDict, FilteringBoundLogger

from infra.shared.boot import Boot
from infra.shared.clock import timestamp
from infra.shared.log import LAST

Log = FilteringBoundLogger


class Stderr:
    """Writes each log line in one write, straight to the descriptor."""

    def msg(self, line: str) -> None:
        try:
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f"{line}\n".encode(errors="replace"))
        except OSError:
            return  # a full disk: there is nowhere left to say so, and no work may end for want of a log line

    debug = info = warning = error = critical = exception = msg


def logger(boot: Boot) -> Log:
    log: Log = structlog.wrap_logger(
        Stderr(),
        processors=[structlog.processors.add_log_level, _time, *LAST],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
    )
    return log.bind(branch=boot.branch, commit=boot.commit, boot_id=boot.id)


def _time(logger: Any, method: str, event: EventDict) -> EventDict:
    return {"timestamp": timestamp(time.time()), **event}

"""The runner's log: events `dotted.past_tense` with their facts, one JSON object a line on stderr, which the watcher
has pointed at logs/errors.log."""

from __future__ import annotations

import sys

import structlog
from structlog.typing import FilteringBoundLogger

from infra.shared.boot import Boot
from infra.shared.log import COMMON, LAST

Log = FilteringBoundLogger


def logger(boot: Boot) -> Log:
    log: Log = structlog.wrap_logger(
        structlog.WriteLogger(sys.stderr),  # each line in one write; a full disk is no error (`guard_stderr`)
        processors=[*COMMON, *LAST],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
    )
    return log.bind(branch=boot.branch, commit=boot.commit, boot_id=boot.id)

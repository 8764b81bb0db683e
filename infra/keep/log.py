"""The logs of the keep's programs: one JSON object a line, redacted."""

from __future__ import annotations

import sys
from typing import Any

import structlog

from infra.shared.log import COMMON, LAST


def log_as_json(logger_factory: Any, wrapper_class: Any = None) -> None:
    """Called once, by a program's `main`."""
    structlog.configure(
        processors=[*COMMON, *LAST],
        logger_factory=logger_factory,
        wrapper_class=wrapper_class,
        cache_logger_on_first_use=wrapper_class is None,
    )


def log_to_stderr() -> None:
    """Called once, by a door's `main`: our own events, and whatever the libraries have to say. Events carry types,
    counts and times; no key, no header and no word of a conversation is ever put into one."""
    import logging

    log_as_json(structlog.WriteLoggerFactory(sys.stderr))
    last = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *LAST]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=COMMON, processors=last))
    # Libraries speak of requests and headers below this level.
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.captureWarnings(True)


def log_to_file(name: str, path: str, rotate_over: int) -> structlog.stdlib.BoundLogger:
    """The same in a file; one that would pass `rotate_over` bytes is moved to `.1`. Raises OSError."""
    import logging.handlers  # the doors have no file of their own

    handler = logging.handlers.RotatingFileHandler(path, maxBytes=rotate_over, backupCount=1, encoding="utf-8")
    logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[handler])
    log_as_json(structlog.stdlib.LoggerFactory(), structlog.stdlib.BoundLogger)
    log: structlog.stdlib.BoundLogger = structlog.get_logger(name)
    return log

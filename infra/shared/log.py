"""The log of the keep's programs: one JSON object a line."""

from __future__ import annotations

from typing import Any

import structlog
from structlog.typing import Processor

COMMON: tuple[Processor, ...] = (
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
)


def log_as_json(logger_factory: Any, wrapper_class: Any = None) -> None:
    """Called once, by a program's `main`."""
    structlog.configure(
        processors=[*COMMON, structlog.processors.JSONRenderer()],
        logger_factory=logger_factory,
        wrapper_class=wrapper_class,
        cache_logger_on_first_use=wrapper_class is None,
    )


def log_to_file(name: str, path: str, rotate_over: int) -> structlog.stdlib.BoundLogger:
    """The same in a file; one that would pass `rotate_over` bytes is moved to `.1`. Raises OSError."""
    import logging.handlers  # the doors have no file of their own

    handler = logging.handlers.RotatingFileHandler(path, maxBytes=rotate_over, backupCount=1, encoding="utf-8")
    logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[handler])
    log_as_json(structlog.stdlib.LoggerFactory(), structlog.stdlib.BoundLogger)
    log: structlog.stdlib.BoundLogger = structlog.get_logger(name)
    return log

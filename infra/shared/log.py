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

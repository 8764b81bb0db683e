"""The door's log: one JSON object a line on stderr, for our own events and for whatever the libraries have to say.

Events carry types, counts and times; no key, no header and no word of a conversation is ever put into one."""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import Processor

_COMMON: list[Processor] = [
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="timestamp"),
    structlog.processors.format_exc_info,
]


def configure() -> None:
    """Called once, by `main`."""
    structlog.configure(
        processors=[*_COMMON, structlog.processors.JSONRenderer()],
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_COMMON,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    # Libraries speak of requests and headers below this level.
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.captureWarnings(True)

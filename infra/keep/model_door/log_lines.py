"""The door's log: one JSON object a line on stderr, for our own events and for whatever the libraries have to say.

Events carry types, counts and times; no key, no header and no word of a conversation is ever put into one."""

from __future__ import annotations

import logging
import sys

import structlog

from infra.shared.log import COMMON, LAST, log_as_json


def configure() -> None:
    """Called once, by `main`."""
    log_as_json(structlog.WriteLoggerFactory(sys.stderr))
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=COMMON,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *LAST],
        )
    )
    # Libraries speak of requests and headers below this level.
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.captureWarnings(True)

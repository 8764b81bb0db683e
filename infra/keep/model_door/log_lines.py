"""The door's log: one JSON object a line on stderr, for our own events and for whatever the libraries have to say.

Events carry types, counts and times; no key, no header and no word of a conversation is ever put into one."""

from __future__ import annotations

import logging
import sys

from infra.shared.log import line


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        return line(record.levelname.lower(), record.getMessage(), {}, error)


def configure() -> None:
    """Called once, by `main`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    # Libraries speak of requests and headers below this level.
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.captureWarnings(True)

"""The log of a program: one JSON object a line, redacted (`LAST`)."""

from __future__ import annotations

from typing import Any

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor

from infra.shared.secret_shapes import redacted_value

Log = FilteringBoundLogger
COMMON: tuple[Processor, ...] = (
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)
"""The beginning of every chain of ours."""


def redact(logger: Any, method: str, event: EventDict) -> EventDict:
    """Texts, and what is written as one: an error is shown by its words, which others may have written."""
    shown: EventDict = redacted_value(_as_json(event))
    return shown


def _as_json(value: Any) -> Any:
    match value:
        case None | str() | bool() | int() | float():
            return value
        case dict():
            return {str(name): _as_json(inner) for name, inner in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_as_json(inner) for inner in value]
    return str(value)


LAST: tuple[Processor, ...] = (
    structlog.processors.format_exc_info,
    redact,
    structlog.processors.JSONRenderer(),
)
"""The end of every chain of ours: nothing is rendered that was not redacted."""

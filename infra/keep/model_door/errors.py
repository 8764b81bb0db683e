"""How a provider says that a call failed, in the door's own terms: what all providers share; pure.

Each provider's own words for it stand in its `<provider>_errors`."""

from __future__ import annotations

import email.utils
import math
from collections.abc import Mapping

MAX_RETRY_AFTER_SECONDS = 300.0
"""Whatever the provider asks for; the runner's clock brings the next try anyway."""
MAX_MESSAGE_CHARACTERS = 500

_BY_STATUS = {
    401: "authentication",
    402: "budget_exhausted",
    403: "authentication",
    408: "unavailable",
    413: "context_overflow",
    429: "rate_limited",
    503: "unavailable",
    504: "unavailable",
    529: "unavailable",
}
_OUT_OF_MONEY = ("credit balance", "spend limit", "spend_limit", "usage limit", "billing", "insufficient_quota")
_TOO_LONG = (
    *("prompt is too long", "context limit", "context window", "too many tokens", "context length"),
    *("context_length", "context size", "context_window"),
)


class BrokenReply(ValueError):
    """A reply that is not what the provider's format says; names what is wrong with it."""


class ProviderError(Exception):
    """The provider's own error, in the middle of a reply that began well."""

    def __init__(self, type: str, message: str) -> None:
        super().__init__(message)
        self.type = type
        self.message = message


def type_of_failure(status: int, named: str | None, words: str) -> str:
    """A type of `conversation.ERROR_TYPES`. `named`: what the provider's own name for the error stands for, if it has
    one; `words`: its message and error code.

    An exhausted account and an overlong prompt come as plain 400s or 429s, so there the words have to tell."""
    words = words.lower()
    found = _BY_STATUS.get(status) or named or ("invalid_request" if 400 <= status < 500 else "provider_error")
    if found in ("invalid_request", "rate_limited") and any(part in words for part in _OUT_OF_MONEY):
        return "budget_exhausted"
    if found == "invalid_request" and any(part in words for part in _TOO_LONG):
        return "context_overflow"
    return found


def retry_after_seconds(headers: Mapping[str, str], wall_now: float) -> float | None:
    """The wait that the provider asks for, at most MAX_RETRY_AFTER_SECONDS; None for none, or for nonsense."""
    text = headers.get("retry-after", "").strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(text).timestamp() - wall_now
        except (ValueError, TypeError, OverflowError):
            return None
    if math.isnan(seconds):
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)


def shortened(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= MAX_MESSAGE_CHARACTERS else line[: MAX_MESSAGE_CHARACTERS - 1] + "…"

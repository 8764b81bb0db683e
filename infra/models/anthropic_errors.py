"""How Anthropic says that a call failed, in the door's own terms; pure."""

from __future__ import annotations

import email.utils
import math
from collections.abc import Mapping

MAX_RETRY_AFTER_SECONDS = 300.0
"""Whatever the provider asks for; the runner's clock brings the next try anyway."""
MAX_MESSAGE_CHARACTERS = 500

_BY_TYPE = {
    "authentication_error": "authentication",
    "permission_error": "authentication",
    "billing_error": "budget_exhausted",
    "request_too_large": "context_overflow",
    "rate_limit_error": "rate_limited",
    "overloaded_error": "unavailable",
    "timeout_error": "unavailable",
    "api_error": "provider_error",
    "invalid_request_error": "invalid_request",
    "not_found_error": "invalid_request",
}
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
_OUT_OF_MONEY = ("credit balance", "spend limit", "spend_limit", "usage limit", "billing")
_TOO_LONG = ("prompt is too long", "context limit", "context window", "too many tokens")


def failure_type(status: int, provider_type: str | None, words: str) -> str:
    """A type of `conversation.ERROR_TYPES`. `words`: the provider's message and error code.

    An exhausted account and an overlong prompt come as plain 400s or 429s, so there the words have to tell."""
    words = words.lower()
    named = _BY_TYPE.get(provider_type or "")
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

"""How a provider says that a call failed, in the door's own terms; pure."""

from __future__ import annotations

import email.utils
import math
from collections.abc import Mapping, Sequence

from infra.shared.secret_shapes import redacted_and_cut

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
_BY_NAME = {
    "authentication_error": "authentication",
    "invalid_api_key": "authentication",
    "permission_error": "authentication",
    "billing_error": "budget_exhausted",
    "billing_hard_limit_reached": "budget_exhausted",
    "insufficient_quota": "budget_exhausted",
    "context_length_exceeded": "context_overflow",
    "request_too_large": "context_overflow",
    "rate_limit_error": "rate_limited",
    "rate_limit_exceeded": "rate_limited",
    "requests": "rate_limited",
    "tokens": "rate_limited",
    "overloaded_error": "unavailable",
    "server_overloaded": "unavailable",
    "service_unavailable": "unavailable",
    "timeout": "unavailable",
    "timeout_error": "unavailable",
    "api_error": "provider_error",
    "server_error": "provider_error",
    "invalid_request_error": "invalid_request",
    "model_not_found": "invalid_request",
    "not_found_error": "invalid_request",
    "invalid_prompt": "invalid_request",
    **dict.fromkeys(
        (
            *("invalid_image", "invalid_image_format", "invalid_base64_image", "image_too_large", "image_too_small"),
            *("image_parse_error", "image_file_too_large", "unsupported_image_media_type", "empty_image_file"),
            "image_content_policy_violation",
        ),
        "invalid_request",
    ),
}
"""The names of Anthropic and OpenAI, and of those who took theirs over; none means two things."""
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


class CallRefused(Exception):
    """An answer that is not a reply."""

    def __init__(self, status: int, names: Sequence[str], message: str, headers: Mapping[str, str]) -> None:
        """`names`: what the provider calls the error, the most exact first."""
        super().__init__(message)
        self.status = status
        self.names = names
        self.message = message
        self.headers = headers


def type_of_failure(status: int, names: Sequence[str], words: str) -> str:
    """A type of `conversation.ERROR_TYPES`. `names`: what the provider calls the error, the most exact first; `words`:
    its message.

    An exhausted account and an overlong prompt come as plain 400s or 429s, so there the words have to tell."""
    said = " ".join((words, *names)).lower()
    named = next((_BY_NAME[name] for name in names if name in _BY_NAME), None)
    found = _BY_STATUS.get(status) or named or ("invalid_request" if 400 <= status < 500 else "provider_error")
    if found in ("invalid_request", "rate_limited") and any(part in said for part in _OUT_OF_MONEY):
        return "budget_exhausted"
    if found == "invalid_request" and any(part in said for part in _TOO_LONG):
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


def shortened(words: str, known: tuple[bytes, ...]) -> str:
    """On one line, without secrets; `known` is the model's key."""
    return redacted_and_cut(" ".join(words.split()), MAX_MESSAGE_CHARACTERS, known)

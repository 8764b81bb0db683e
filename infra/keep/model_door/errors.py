"""How a provider says that a call failed, in the door's own terms; pure."""

from __future__ import annotations

import email.utils
import json
import math
from collections.abc import Mapping, Sequence

from infra.keep.model_door.model import CallFailure
from infra.shared.secret_shapes import redacted_and_cut

MAX_RETRY_AFTER_SECONDS = 300.0
"""Whatever the provider asks for; the runner's clock brings the next try anyway."""
MAX_MESSAGE_CHARACTERS = 500

_SAID: dict[str, tuple[int | str, ...]] = {
    "authentication": (401, 403, "authentication_error", "invalid_api_key", "permission_error"),
    "budget_exhausted": (402, "billing_error", "billing_hard_limit_reached", "insufficient_quota"),
    "context_overflow": (413, "context_length_exceeded", "request_too_large"),
    "rate_limited": (429, "rate_limit_error", "rate_limit_exceeded", "requests", "tokens"),
    "unavailable": (
        *(408, 503, 504, 529, "overloaded_error", "server_overloaded", "service_unavailable"),
        *("timeout", "timeout_error"),
    ),
    "provider_error": ("api_error", "server_error"),
    "invalid_request": ("invalid_request_error", "model_not_found", "not_found_error", "invalid_prompt"),
}
"""Statuses, and the names of Anthropic and OpenAI and of those who took theirs over; none means two things."""
_MEANS = {said: type for type, all_said in _SAID.items() for said in all_said}
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
        self.type, self.message = type, message


def type_of_failure(status: int, names: Sequence[str], words: str) -> str:
    """A type of `conversation.ERROR_TYPES`. `names`: what the provider calls the error, the most exact first; `words`:
    its message.

    An exhausted account and an overlong prompt come as plain 400s or 429s, so there the words have to tell."""
    said = " ".join((words, *names)).lower()
    otherwise = "invalid_request" if 400 <= status < 500 else "provider_error"
    found = next((_MEANS[each] for each in (status, *names) if each in _MEANS), otherwise)
    if found in ("invalid_request", "rate_limited") and any(part in said for part in _OUT_OF_MONEY):
        return "budget_exhausted"
    if found == "invalid_request" and any(part in said for part in _TOO_LONG):
        return "context_overflow"
    return found


def refusal(status: int, headers: Mapping[str, str], content: bytes, wall_now: float) -> CallFailure:
    """An answer that is no reply: its error may be `{"error": "words"}` or `{"error": {"type", "code", "message"}}`;
    some servers leave the frame out."""
    if status < 400:
        words = f"the provider answered with status {status}; redirects are not followed, see model.base_url"
        return CallFailure("provider_error", words)
    try:
        raw = json.loads(content)
    except (ValueError, RecursionError):
        raw = None
    error = raw.get("error", raw) if isinstance(raw, dict) else None
    told = error if isinstance(error, dict) else {"message": error}
    details = told.get("details")
    exact = details.get("error_code") if isinstance(details, dict) else None
    names = [name for name in (exact, told.get("code"), told.get("type")) if isinstance(name, str) and name]
    message = told.get("message")
    said = message if isinstance(message, str) and message else "no message"
    request_id = headers.get("request-id") or headers.get("x-request-id")
    request = f" (request {request_id})" if request_id else ""
    words = f"the provider refused with status {status}{request}, {names[0] if names else 'no type'}: {said}"
    return CallFailure(type_of_failure(status, names, said), words, retry_after_seconds(headers, wall_now))


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
    return None if math.isnan(seconds) else min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)


def shortened(words: str, known: tuple[bytes, ...]) -> str:
    """On one line, without secrets; `known` is the model's key."""
    return redacted_and_cut(" ".join(words.split()), MAX_MESSAGE_CHARACTERS, known)

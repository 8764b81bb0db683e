"""How OpenAI, and who speaks like it, says that a call failed, in the door's own terms; pure."""

from __future__ import annotations

from infra.keep.model_door.errors import type_of_failure

_BY_NAME = {
    "authentication_error": "authentication",
    "invalid_api_key": "authentication",
    "permission_error": "authentication",
    "insufficient_quota": "budget_exhausted",
    "billing_hard_limit_reached": "budget_exhausted",
    "context_length_exceeded": "context_overflow",
    "rate_limit_exceeded": "rate_limited",
    "rate_limit_error": "rate_limited",
    "requests": "rate_limited",
    "tokens": "rate_limited",
    "server_error": "provider_error",
    "server_overloaded": "unavailable",
    "overloaded_error": "unavailable",
    "service_unavailable": "unavailable",
    "timeout": "unavailable",
    "invalid_request_error": "invalid_request",
    "model_not_found": "invalid_request",
}


def failure_type(status: int, code: str | None, type: str | None, words: str) -> str:
    """A type of `conversation.ERROR_TYPES`. The code says more than the type, where there is one."""
    named = _BY_NAME.get(code or "") or _BY_NAME.get(type or "")
    if status == 429 and named == "budget_exhausted":
        return named
    return type_of_failure(status, named, f"{words} {code or ''}")

"""How Anthropic says that a call failed, in the door's own terms; pure."""

from __future__ import annotations

from infra.keep.model_door.errors import type_of_failure

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


def failure_type(status: int, provider_type: str | None, words: str) -> str:
    """A type of `conversation.ERROR_TYPES`. `words`: the provider's message and error code."""
    return type_of_failure(status, _BY_TYPE.get(provider_type or ""), words)

"""Why a request to the web door comes to nothing, in the shapes of `shared.web`."""

from __future__ import annotations

from infra.shared.web import WebError


class WebRefusal(Exception):
    """`flags` say in the trace which rule or bound it was."""

    def __init__(self, error: WebError, *flags: str) -> None:
        super().__init__(error.message)
        self.error = error
        self.flags = flags


def invalid(message: str, hint: str = "") -> WebRefusal:
    return WebRefusal(WebError("validation_error", message, False, hint))


def denied(message: str, hint: str, *flags: str) -> WebRefusal:
    return WebRefusal(WebError("policy_denied", message, False, hint), *flags)


def failed(message: str, hint: str = "", retriable: bool = False) -> WebRefusal:
    return WebRefusal(WebError("execution_error", message, retriable, hint))


def late(message: str, hint: str = "") -> WebRefusal:
    return WebRefusal(WebError("tool_timeout", message, True, hint))


def unavailable(message: str, hint: str = "", retriable: bool = True) -> WebRefusal:
    return WebRefusal(WebError("tool_unavailable", message, retriable, hint))

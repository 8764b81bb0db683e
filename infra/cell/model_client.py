"""The runner's side of the model door: plain HTTP over its unix socket, no SDK.

There are two outcomes, a completion or a ModelFailure; anything unexpected from the door or the connection is a failure
of type `unavailable`. Retrying is the caller's."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import msgspec

from infra.shared.boot import OPERATIONS, TOOLS
from infra.shared.conversation import (
    ACTS_PATH,
    COMPLETE_PATH,
    ERROR_TYPES,
    HEALTH_PATH,
    Completion,
    Request,
    Value,
    completion_from_dict,
    to_plain,
)
from infra.shared.late import load_when_used
from infra.shared.sockets import connect

load_when_used("ssl")  # by http.client, which here talks to a socket on this machine
import http.client  # noqa: E402

MAX_ANSWER_BYTES = 64 * 1024 * 1024


class ModelFailure(Exception):
    """A conversation that was not completed; `type` is one of `conversation.ERROR_TYPES`."""

    def __init__(self, type: str, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(f"{type}: {message}")
        self.type = type
        self.message = message
        self.retry_after_seconds = retry_after_seconds


def complete(socket_path: str, request: Request, timeout_seconds: float) -> Completion:
    """Complete a conversation. `timeout_seconds` bounds each silence of the door. Raises ModelFailure."""
    answer = _asked(socket_path, COMPLETE_PATH, request, timeout_seconds)
    try:
        return completion_from_dict(answer)
    except ValueError as error:
        raise ModelFailure("unavailable", f"the model door's answer is not a completion: {error}") from None


def _asked(socket_path: str, path: str, asked: Value, timeout_seconds: float) -> dict[str, Any]:
    """The door's answer, when it is no failure. Raises ModelFailure."""
    try:
        body = _encoded(asked)
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelFailure("invalid_request", f"the conversation cannot be written as JSON: {error}") from None
    status, answer = _exchange(socket_path, "POST", path, body, timeout_seconds)
    if status != http.HTTPStatus.OK:
        raise _failure(status, answer)
    return answer


def health(socket_path: str, timeout_seconds: float) -> dict[str, Any]:
    """What the door says of itself; `problem` is not None when its calls cannot work. Raises ModelFailure."""
    status, answer = _exchange(socket_path, "GET", HEALTH_PATH, None, timeout_seconds)
    if status != http.HTTPStatus.OK:
        raise _failure(status, answer)
    return answer


class ActsNow(NamedTuple):
    """How runs ask for acts."""

    begin: str
    """One that begins now: TOOLS or OPERATIONS."""
    lacks_tools: bool = False
    """A model is known to have none, so no run of tools can go on."""


def acts_now(socket_path: str, timeout_seconds: float) -> ActsNow | None:
    """None when the door does not say."""
    try:
        status, answer = _exchange(socket_path, "GET", ACTS_PATH, None, timeout_seconds)
    except ModelFailure:
        return None
    found = answer.get("acts") if status == http.HTTPStatus.OK else None
    return ActsNow(found, bool(answer.get("lacking"))) if found in (TOOLS, OPERATIONS) else None


def _encoded(asked: Value) -> bytes:
    try:
        return msgspec.json.encode(asked)
    except UnicodeEncodeError:
        # A page or a file may hold bytes that are no text; JSON cannot, and one of them would stop every run.
        return json.dumps(to_plain(asked), ensure_ascii=False).encode(errors="replace")


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, socket_path: str, timeout_seconds: float) -> None:
        super().__init__("model-door", timeout=timeout_seconds)
        self._socket_path = socket_path
        self._timeout_seconds = timeout_seconds

    def connect(self) -> None:
        self.sock = connect(self._socket_path, self._timeout_seconds)


def _exchange(
    socket_path: str, method: str, path: str, body: bytes | None, timeout_seconds: float
) -> tuple[int, dict[str, Any]]:
    connection = _UnixConnection(socket_path, timeout_seconds)
    try:
        connection.request(method, path, body, {"content-type": "application/json", "connection": "close"})
        response = connection.getresponse()
        content = response.read(MAX_ANSWER_BYTES + 1)
        missing = response.length
    except (OSError, http.client.HTTPException) as error:
        why = f"{type(error).__name__}: {error}"
        raise ModelFailure("unavailable", f"the model door at {socket_path} did not answer ({why})") from error
    finally:
        connection.close()
    if missing:
        raise ModelFailure("unavailable", f"the model door's answer broke off, {missing} bytes are missing")
    if len(content) > MAX_ANSWER_BYTES:
        raise ModelFailure("unavailable", f"the model door's answer is over {MAX_ANSWER_BYTES} bytes")
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError) as error:
        words = f"the model door answered {response.status} with something that is not JSON ({error})"
        raise ModelFailure("unavailable", words) from None
    if not isinstance(answer, dict):
        raise ModelFailure("unavailable", f"the model door answered {response.status} with {type(answer).__name__}")
    return response.status, answer


def _failure(status: int, answer: dict[str, Any]) -> ModelFailure:
    match answer:
        case {"error": {"type": str(kind), "message": str(message), **rest}} if kind in ERROR_TYPES:
            wait = rest.get("retry_after_seconds")
            seconds = float(wait) if isinstance(wait, int | float) and not isinstance(wait, bool) else None
            return ModelFailure(kind, message, seconds)
    return ModelFailure("unavailable", f"the model door answered {status} without a reason that can be read")

"""The door's HTTP: which paths it answers, and one form for every error (`keep.serving` does the rest)."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from infra.keep.model_door.model import CallFailure
from infra.shared.control import PROBE_PATH
from infra.shared.conversation import ACTS_PATH, COMPLETE_PATH, ERROR_TYPES, HEALTH_PATH

PROBE_CHARS = 200
ASKED_PATHS = (HEALTH_PATH, PROBE_PATH, ACTS_PATH)


async def _failed(_: Request, error: Exception) -> Response:
    if not isinstance(error, CallFailure):
        raise AssertionError("unreachable: the handler of CallFailure")
    return _error(error.type, error.message, error.retry_after_seconds, ERROR_TYPES[error.type])


async def _not_ours(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise AssertionError("unreachable: the handler of HTTPException")
    answered = f"{', '.join(f'GET {path}' for path in ASKED_PATHS)} and POST {COMPLETE_PATH}"
    words = f"{error.detail}; this door answers {answered}"
    return _error("invalid_request", words, None, error.status_code)


async def _bug(_: Request, error: Exception) -> Response:
    """The exception goes on to the server after this, which logs it."""
    return _error("unavailable", f"the model door has a bug: {type(error).__name__}; see its log", None, 500)


def read_probe(path: str) -> str:
    """What the watcher wrote for probes; empty for nothing. Raises CallFailure."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read(PROBE_CHARS)
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise CallFailure("unavailable", f"what the watcher wrote for probes cannot be read: {error}") from None


ERROR_HANDLERS: dict[Any, Any] = {CallFailure: _failed, HTTPException: _not_ours, Exception: _bug}


def _error(type: str, message: str, retry_after_seconds: float | None, status: int) -> Response:
    error = {"type": type, "message": message, "retry_after_seconds": retry_after_seconds}
    return JSONResponse({"error": error}, status_code=status)

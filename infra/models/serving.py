"""The door's HTTP: a socket that listens already, bodies up to a limit, and one form for every error.

What is answered is the door's own business (`infra.model_door`)."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from infra.contract.control import PROBE_PATH
from infra.contract.conversation import COMPLETE_PATH, ERROR_TYPES, HEALTH_PATH
from infra.models.incoming import MAX_BYTES, too_large
from infra.models.model import CallFailure

BUDGET_PATH = "/v1/budget"
MAX_CONNECTIONS = 64


def serve(app: Starlette, listening: socket.socket, when_ready: Callable[[], None] | None = None) -> None:
    """Answer until a signal asks to leave; `when_ready` is called once the first answer can be given."""
    config = uvicorn.Config(
        app,
        loop="asyncio",
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=1,
        limit_concurrency=MAX_CONNECTIONS,
    )
    _Server(config, when_ready).run(sockets=[listening])


class _Server(uvicorn.Server):
    """Does not wait for its calls when it is asked to leave: one can take many minutes."""

    def __init__(self, config: uvicorn.Config, when_ready: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._when_ready = when_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._when_ready:
            self._when_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in self.server_state.tasks:
            task.cancel()
        await super().shutdown(sockets)


async def body_of(http: Request) -> bytes:
    """The whole body. Raises CallFailure for one over the limit, after its end: a client that is still sending
    would not hear the answer."""
    content = bytearray()
    size = 0
    try:
        async for part in http.stream():
            size += len(part)
            if size <= MAX_BYTES:
                content += part
    except ClientDisconnect:
        raise CallFailure("invalid_request", "the client left in the middle of its request") from None
    if size > MAX_BYTES:
        raise too_large()
    return bytes(content)


async def _failed(_: Request, error: Exception) -> Response:
    if not isinstance(error, CallFailure):
        raise AssertionError("unreachable: the handler of CallFailure")
    return _error(error.type, error.message, error.retry_after_seconds, ERROR_TYPES[error.type])


async def _not_ours(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise AssertionError("unreachable: the handler of HTTPException")
    answered = f"GET {HEALTH_PATH}, GET {BUDGET_PATH}, GET {PROBE_PATH} and POST {COMPLETE_PATH}"
    words = f"{error.detail}; this door answers {answered}"
    return _error("invalid_request", words, None, error.status_code)


async def _bug(_: Request, error: Exception) -> Response:
    """The exception goes on to the server after this, which logs it."""
    return _error("unavailable", f"the model door has a bug: {type(error).__name__}; see its log", None, 500)


ERROR_HANDLERS: dict[Any, Any] = {CallFailure: _failed, HTTPException: _not_ours, Exception: _bug}


def _error(type: str, message: str, retry_after_seconds: float | None, status: int) -> Response:
    error = {"type": type, "message": message, "retry_after_seconds": retry_after_seconds}
    return JSONResponse({"error": error}, status_code=status)

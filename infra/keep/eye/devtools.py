"""The DevTools protocol over one socket: JSON with a zero byte behind each message. One thread; while it waits for
an answer, or for nothing but time, each event is handed to `on_event`.

Whatever else is raised here or there than `Refused`, the browser is not to be asked again: it is late, has ended, or
says what cannot be understood."""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Callable
from typing import Any

import msgspec

MOST_MESSAGE_BYTES = 24 << 20


class Message(msgspec.Struct, frozen=True):
    id: int = 0
    method: str = ""
    params: dict[str, Any] = {}
    result: dict[str, Any] = {}
    error: dict[str, Any] | None = None
    session: str = msgspec.field(default="", name="sessionId")


class Refused(Exception):
    """The browser does not do it; the words are its own."""


_MESSAGE = msgspec.json.Decoder(Message)


class Devtools:
    def __init__(self, wire: socket.socket) -> None:
        self._wire = wire
        self.on_event: Callable[[Message], None] = lambda event: None
        self._held = bytearray()
        self._read_to = 0
        self._number = 0

    def ask(self, method: str, deadline: float, session: str = "", **params: Any) -> dict[str, Any]:
        """Raises Refused."""
        answer = self.attend(deadline, self.tell(method, session, **params))
        if answer is None:
            raise TimeoutError(method)
        if answer.error is not None:
            raise Refused(str(answer.error))
        return answer.result

    def tell(self, method: str, session: str = "", **params: Any) -> int:
        """Without waiting for the answer, which is passed over."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        self._wire.sendall(msgspec.json.encode(asked) + b"\0")
        return self._number

    def attend(self, until: float, number: int = -1) -> Message | None:
        """Hand out events, until there is an answer to that number."""
        while message := self._next(until):
            if message.method:
                self.on_event(message)
            elif message.id == number:
                return message
        return None

    def _next(self, until: float) -> Message | None:
        while (end := self._held.find(b"\0", self._read_to)) < 0:
            self._read_to = len(self._held)
            if self._read_to > MOST_MESSAGE_BYTES:
                raise ValueError("a message without an end")
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._wire], [], [], left)[0]:
                return None
            piece = self._wire.recv(1 << 18)
            if not piece:
                raise EOFError("the browser has ended")
            self._held += piece
        line = bytes(self._held[:end])
        del self._held[: end + 1]
        self._read_to = 0
        try:
            return _MESSAGE.decode(line)
        except msgspec.DecodeError:  # half a character, which scripts make of whole ones, is no JSON to it
            return _MESSAGE.decode(json.dumps(json.loads(line), ensure_ascii=False).encode(errors="replace"))

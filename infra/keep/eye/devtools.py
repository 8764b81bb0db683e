"""The DevTools protocol over one socket: JSON with a zero byte behind each message. One thread; while it waits for
an answer, or for nothing but time, each event is handed to `on_event`."""

from __future__ import annotations

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
    params: msgspec.Raw = msgspec.Raw(b"{}")
    result: msgspec.Raw = msgspec.Raw(b"{}")
    error: dict[str, Any] | None = None
    session: str = msgspec.field(default="", name="sessionId")


class Refused(Exception):
    """The browser does not do it; the words are its own."""


class Late(Exception):
    """There was no answer in time."""


class Gone(Exception):
    """The browser has ended, or says what cannot be understood."""


OnEvent = Callable[[Message], None]
_MESSAGE = msgspec.json.Decoder(Message)


class Devtools:
    def __init__(self, wire: socket.socket, on_event: OnEvent) -> None:
        self._wire, self._on_event = wire, on_event
        self._held = bytearray()
        self._read_to = 0
        self._number = 0

    def ask(self, method: str, deadline: float, session: str = "", **params: Any) -> dict[str, Any]:
        """Raises Refused, Late, Gone."""
        number = self.tell(method, session, **params)
        while True:
            message = self._next(deadline)
            if message is None:
                raise Late(method)
            if message.method:
                self._on_event(message)
            elif message.id == number:
                if message.error is not None:
                    raise Refused(f"{method}: {str(message.error.get('message', ''))[:120]}")
                return _object(message.result)

    def tell(self, method: str, session: str = "", **params: Any) -> int:
        """Without waiting for the answer, which is passed over. Raises Gone."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        try:
            self._wire.sendall(msgspec.json.encode(asked) + b"\0")
        except OSError as error:
            raise Gone(str(error)) from None
        return self._number

    def attend(self, until: float, done: Callable[[], bool] = lambda: False) -> bool:
        """Hand out events until that moment, or until `done`. Raises Gone."""
        while not done():
            message = self._next(until)
            if message is None:
                return False
            if message.method:
                self._on_event(message)
        return True

    def _next(self, until: float) -> Message | None:
        while True:
            end = self._held.find(b"\0", self._read_to)
            if end >= 0:
                break
            self._read_to = len(self._held)
            if self._read_to > MOST_MESSAGE_BYTES:
                raise Gone("a message without an end")
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._wire], [], [], left)[0]:
                return None
            piece = self._wire.recv(1 << 18)
            if not piece:
                raise Gone("the browser has ended")
            self._held += piece
        line = bytes(self._held[:end])
        del self._held[: end + 1]
        self._read_to = 0
        try:
            return _MESSAGE.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Gone(f"what it says cannot be read: {error}") from None


def _object(raw: msgspec.Raw) -> dict[str, Any]:
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Gone(f"what it says cannot be read: {error}") from None

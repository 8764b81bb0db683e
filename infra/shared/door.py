"""One request and one answer, a line of JSON each way, over a door's unix socket.

The answer is `{"answer": …}`, of the shape that belongs to the request, or `{"failure": …}`."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
from typing import TypeVar

import msgspec

MOST_ANSWER_BYTES = 64 << 20
_T = TypeVar("_T")


class DoorRequest(msgspec.Struct, frozen=True, tag_field="do", tag=str.lower, omit_defaults=True):
    """What a door can be asked: a class for each, whose name in small letters is the field `do`."""


class Health(DoorRequest, frozen=True):
    """Asked by the watcher: does this door answer? The answer is each door's own, at least `Healthy`."""


class Healthy(msgspec.Struct, frozen=True):
    """The door answers."""


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why there is no answer."""

    type: str
    """Of the door's own words: `conversation.ERROR_TYPES`, `web.WebErrorType`; of the git door `refused` or
    `unavailable`."""
    message: str
    retriable: bool = False
    """The same request may succeed later."""
    retry_after_seconds: float | None = None
    hint: str = ""
    """What to do next."""


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The line that comes back."""

    answer: msgspec.Raw = msgspec.Raw(b"null")
    failure: Failure | None = None


class DoorAway(OSError):
    """Nobody answered, or not to the end."""


_ANSWER = msgspec.json.Decoder(Answer)


def ask(path: str, request: DoorRequest, shape: type[_T], seconds: float) -> _T | Failure:
    """`seconds` bound each silence of the door. Raises DoorAway, ValueError when the request is no JSON."""
    try:
        with put(path, request, seconds) as wire:
            return answer_on(wire, shape)
    except OSError as error:
        raise DoorAway(f"the door at {path} did not answer: {error or type(error).__name__}") from None


def put(path: str, request: DoorRequest, seconds: float) -> socket.socket:
    """The connection on which the answer will come. Raises OSError, ValueError when the request is no JSON."""
    line = encoded(request) + b"\n"
    wire = connect(path, seconds)
    with contextlib.suppress(OSError):  # it may have answered without reading all
        wire.sendall(line)
    return wire


def answer_on(wire: socket.socket, shape: type[_T]) -> _T | Failure:
    """Wait for the answer. Raises OSError."""
    line = _received(wire)
    try:
        told = _ANSWER.decode(line)
        return told.failure or msgspec.json.decode(told.answer, type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise OSError(f"its answer cannot be read: {error}") from None


def connect(path: str, timeout_seconds: float) -> socket.socket:
    """A connection to `path`. Raises OSError.

    While the queue there is full it waits in line, as a socket with Python's own timeout does not (connect(2), EAGAIN):
    that one is refused at once, for as long as others keep the queue full."""
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        wait_in_line(client, timeout_seconds)
        client.connect(path)
        client.settimeout(timeout_seconds)
    except BlockingIOError:
        client.close()
        raise TimeoutError(f"the queue at {path} was full for {timeout_seconds:g} s") from None
    except BaseException:
        client.close()
        raise
    return client


def wait_in_line(client: socket.socket, seconds: float) -> None:
    """Limit connect(2) and send(2) of a blocking socket to `seconds` (socket(7), SO_SNDTIMEO)."""
    whole, part = divmod(max(1, round(seconds * 1_000_000)), 1_000_000)  # 0 would mean for ever
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", whole, part))


def encoded(value: msgspec.Struct) -> bytes:
    """As JSON, with `?` for half characters: a file may hold bytes that are no text, and one of them would stop every
    run. Raises ValueError."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), ensure_ascii=False).encode(errors="replace")
    except (TypeError, RecursionError) as error:
        raise ValueError(f"the request cannot be written as JSON: {error}") from None


def _received(wire: socket.socket) -> bytes:
    line = bytearray()
    while not line.endswith(b"\n"):
        piece = wire.recv(1 << 18)
        if not piece or len(line) > MOST_ANSWER_BYTES:
            why = "over a bound of bytes" if piece else "ended before its end"
            raise OSError(f"its answer, {len(line)} bytes so far, is {why}" if piece else f"its answer {why}")
        line += piece
    return bytes(line)

"""Sends the git door a request that git has no verb for: one request and one reply per connection
(`shared.requests`)."""

from __future__ import annotations

import contextlib
import socket

from infra.shared.requests import MAX_BYTES, Later, Reply, Request, RequestError, encode_request, parse_reply
from infra.shared.sockets import connect

SECONDS = 70.0
"""The door may wait for git, and for others that move main; its own calls end after a minute."""


def ask(path: str, request: Request, seconds: float = SECONDS) -> Reply:
    """Raises OSError when nobody answers, RequestError when the request is too long for one line."""
    line = encode_request(request)
    with connect(path, seconds) as client:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it may have answered without reading all
            client.sendall(line)
        answer = _line(client)
    if not answer:
        return Later("the git door closed the connection without a reply")
    try:
        return parse_reply(answer)
    except RequestError as error:
        return Later(f"the git door's reply cannot be understood: {error}")


def _line(client: socket.socket) -> bytes:
    read = bytearray()
    while not read.endswith(b"\n") and len(read) <= MAX_BYTES:
        part = client.recv(1 << 16)
        if not part:
            break
        read += part
    return bytes(read)

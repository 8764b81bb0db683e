"""The program that speaks with one browser: `driver BROWSER DOOR`, two descriptors. It carries out each `Look` that
comes from the door, and ends when either of them does, or when the browser says what makes no sense.

What it reads was said by a process that has run strangers' scripts, so all that it may have is taken from it first, as
from a page's reader (`worker_process`)."""

from __future__ import annotations

import resource
import socket
import sys

import msgspec

from infra.keep.eye.devtools import Devtools, Gone, Late, Message, Refused
from infra.keep.eye.looking import Looking
from infra.keep.eye.messages import HEAD_BYTES, Blank, Look, length_in, packed

MEMORY_BYTES = 512 << 20


def main(words: list[str]) -> int:
    browser, door = (socket.socket(fileno=int(word)) for word in words)
    give_up()
    current: list[Looking] = []

    def on_event(message: Message) -> None:
        current[0].on_event(message)

    def tell(said: msgspec.Struct) -> None:
        door.sendall(packed(said))

    devtools = Devtools(browser, on_event)
    try:
        while True:
            # Ahead of the next look: that takes as long as many a page.
            current[:] = [Looking(devtools, tell)]
            current[0].open()
            tell(Blank())
            if not (head := _read(door, HEAD_BYTES)):
                return 0
            look = msgspec.msgpack.decode(_read(door, length_in(head)), type=Look)
            tell(current[0].run(look))
            current[0].close()
    except (Gone, Late, Refused, OSError) as error:
        print(f"the browser is given up: {error}", file=sys.stderr)
        return 1


def _read(wire: socket.socket, size: int) -> bytes:
    """Nothing at the end."""
    content = b""
    while len(content) < size:
        piece = wire.recv(size - len(content))
        if not piece:
            return b""
        content += piece
    return content


def give_up() -> None:
    none = (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE)
    for kind, most in (*((kind, 0) for kind in none), (resource.RLIMIT_AS, MEMORY_BYTES)):
        resource.setrlimit(kind, (most, most))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The program that speaks with one browser: `driver BROWSER DOOR`, two descriptors. It carries out each `Look` that
comes from the door, and ends when either of them does, or when the browser says what makes no sense.

What it reads was said by a process that has run strangers' scripts, so all that it may have is taken from it first, as
from a page's reader (`worker_process`)."""

from __future__ import annotations

import resource
import socket
import sys

import msgspec

from infra.keep.eye.devtools import Devtools
from infra.keep.eye.looking import Looking
from infra.keep.eye.messages import HEAD, Blank, Look, packed

MEMORY_BYTES = 512 << 20


def main(words: list[str]) -> int:
    browser, wire = (socket.socket(fileno=int(word)) for word in words)
    door, devtools = wire.makefile("rb"), Devtools(browser)
    give_up()

    def tell(said: msgspec.Struct) -> None:
        wire.sendall(packed(said))

    try:
        while True:
            # Ahead of the next look: that takes as long as many a page.
            looking = Looking(devtools, tell)
            looking.open()
            tell(Blank())
            [length] = HEAD.unpack(door.read(HEAD.size))
            tell(looking.run(msgspec.msgpack.decode(door.read(length), type=Look)))
            looking.close()
    except Exception as error:  # whatever it is, a stranger's words are behind it
        print(f"the browser is given up: {type(error).__name__}: {str(error)[:200]!a}", file=sys.stderr)
        return 1


def give_up() -> None:
    none = (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE)
    for kind, most in (*((kind, 0) for kind in none), (resource.RLIMIT_AS, MEMORY_BYTES)):
        resource.setrlimit(kind, (most, most))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

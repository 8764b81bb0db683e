"""A browser that was taken over says what it likes: each time one typed error, and nothing of it is left."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable

import pytest

from infra.keep.eye.messages import Look
from infra.keep.web_door.browsers import Pool
from infra.keep.web_door.judge import Judge
from infra.keep.web_door.proxy import Errand, Proxy
from infra.keep.web_door.refusal import WebRefusal
from infra.shared.policy import Policy
from tests.keep.eye.test_eye import lookup

Play = Callable[[socket.socket], None]
ANSWERS = {
    "Target.createBrowserContext": {"browserContextId": "c"},
    "Target.createTarget": {"targetId": "t"},
    "Target.attachToTarget": {"sessionId": "s"},
}


def offered(wire: socket.socket) -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        socket.send_fds(wire, [b"\0"], [proxy.fileno()])


def nothing(wire: socket.socket) -> None:
    wire.sendall(b"\0")


def words(wire: socket.socket) -> None:
    offered(wire)
    wire.recv(100)
    wire.sendall(b"no JSON\0")


def without_end(wire: socket.socket) -> None:
    offered(wire)
    while True:
        wire.sendall(b"x" * (1 << 20))


def depth(wire: socket.socket) -> None:
    offered(wire)
    wire.sendall(b'{"id":1,"result":' + b"[" * 100_000 + b"\0")


def lies(wire: socket.socket) -> None:
    """Sound until it is asked for a page; then values of other types than any browser gives."""
    offered(wire)
    held = b""
    while piece := wire.recv(1 << 16):
        held += piece
        while b"\0" in held:
            line, _, held = held.partition(b"\0")
            asked = json.loads(line)
            result: object = ANSWERS.get(asked["method"], {"frameId": [], "errorText": None})
            event = {"method": "Page.frameStoppedLoading", "params": {"frameId": 7}, "sessionId": "s"}
            for each in ({"id": asked["id"], "result": result}, *([event] if "navigate" in asked["method"] else [])):
                wire.sendall(json.dumps(each).encode() + b"\0")


@pytest.mark.parametrize("play", [nothing, words, without_end, depth, lies])
def test_whatever_it_says_is_one_typed_error(play: Play) -> None:
    ours, its = socket.socketpair()

    def played() -> None:
        with its:
            try:
                play(its)
            except OSError:
                return

    thread = threading.Thread(target=played)
    thread.start()

    async def run() -> str:
        pool = Pool(lambda: ours, lambda: Proxy(Judge(Policy()), lookup))
        try:
            await pool.look(Look("http://site.example/", seconds=1.0), Errand("site.example"))
        except WebRefusal as refusal:
            return refusal.error.type
        finally:
            pool.close()
        return "a page"

    assert asyncio.run(run()) in ("execution_error", "tool_unavailable", "tool_timeout")
    thread.join(10.0)
    assert not thread.is_alive()  # whoever held the connection has ended

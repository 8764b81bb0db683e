"""A door's socket, with one living listener, and its server: one line of JSON each way, what it takes, bounds, and does
when somebody leaves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from infra.keep.door_server import Caller, DoorServer, Limits, Refusal, unless_left
from infra.keep.sockets import MAX_PATH_BYTES, SocketTaken, listen
from infra.shared.door import DoorAway, DoorRequest, Failure, Health, Healthy, ask, connect
from tests.cell.loop.waiting import wait_for

LIMITS = Limits(line_bytes=4096, held_bytes=10_000, at_once=2, connections=4, asking_seconds=0.5)


class Echo(DoorRequest, frozen=True):
    text: str


class Sleep(DoorRequest, frozen=True):
    """Until the test says so, or the client leaves."""


class Said(msgspec.Struct, frozen=True):
    text: str
    pid: int = 0


class Door:
    """A door's server in a thread of its own."""

    def __init__(self, path: str, limits: Limits = LIMITS, keep: int | None = None) -> None:
        self.path, self.limits, self.keep = path, limits, keep
        self.asleep = self.woken = self.left = 0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()
        assert self._ready.wait(10)

    async def _run(self) -> None:
        self.wake, self._leave = asyncio.Event(), asyncio.Event()
        self._loop = asyncio.get_running_loop()
        server = DoorServer(Echo | Sleep | Health, self.answer, failed, self.limits, self.keep)
        with listen(self.path) as listening:
            await server.serve(listening, self._ready.set, self._leave)

    async def answer(self, request: Echo | Sleep | Health, caller: Caller) -> msgspec.Struct:
        match request:
            case Health():
                return Healthy()
            case Echo("refuse"):
                raise Refusal(Failure("refused", "not this", hint="say another"))
            case Echo("break"):
                raise RuntimeError("a bug")
            case Echo(text):
                return Said(text, caller.pid)
        self.asleep += 1
        try:
            await unless_left(caller, self.wake.wait())
            self.woken += 1
        except BaseException:
            self.left += 1
            raise
        return Said("awake")

    def rouse(self) -> None:
        self._loop.call_soon_threadsafe(self.wake.set)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._leave.set)
        self._thread.join(10)


def failed(error: Exception) -> Failure:
    return Failure("invalid_request" if isinstance(error, msgspec.MsgspecError) else "unavailable", str(error))


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    found = Door(str(tmp_path / "door.sock"))
    yield found
    found.close()


def raw(path: str, words: bytes) -> dict[str, object]:
    """The whole answer to what may be no request at all; empty for none."""
    with socket.socket(socket.AF_UNIX) as wire:
        wire.settimeout(10)
        wire.connect(path)
        wire.sendall(words)
        line = wire.makefile("rb").readline()
    found: dict[str, object] = json.loads(line) if line else {}
    return found


def sleepers(door: Door, count: int) -> list[socket.socket]:
    """Connections whose requests are worked on, as far as there are places."""
    wires = [socket.socket(socket.AF_UNIX) for _ in range(count)]
    for wire in wires:
        wire.connect(door.path)
        wire.sendall(b'{"do":"sleep"}\n')
    wait_for(lambda: door.asleep == min(count, LIMITS.at_once), "as many as there are places")
    return wires


def test_a_request_is_answered_and_the_kernel_says_who_asks(door: Door) -> None:
    assert ask(door.path, Echo("hello"), Said, 5) == Said("hello", os.getpid())
    assert ask(door.path, Health(), Healthy, 5) == Healthy()
    assert ask(door.path, Echo("half \udc80"), Said, 5) == Said("half ?", os.getpid())


def test_what_is_refused_or_breaks_comes_as_a_failure(door: Door) -> None:
    assert ask(door.path, Echo("refuse"), Said, 5) == Failure("refused", "not this", hint="say another")
    assert ask(door.path, Echo("break"), Said, 5) == Failure("unavailable", "a bug")
    found = raw(door.path, b'{"do":"dance"}\n')["failure"]
    assert found == {"type": "invalid_request", "message": "Invalid value 'dance' - at `$.do`"}
    assert "invalid_request" in str(raw(door.path, b"no JSON\n"))


@pytest.mark.attack("S17")
def test_a_request_without_end_or_bound_is_let_go(door: Door) -> None:
    assert "over 4096 bytes" in str(raw(door.path, b"x" * 5000))
    began = time.monotonic()
    assert raw(door.path, b'{"do":') == {}  # and no more
    assert time.monotonic() - began >= LIMITS.asking_seconds


@pytest.mark.attack("S17")
def test_all_that_is_held_together_is_bounded(tmp_path: Path) -> None:
    found = Door(str(tmp_path / "door.sock"), LIMITS._replace(held_bytes=3000, asking_seconds=10))
    try:
        with socket.socket(socket.AF_UNIX) as first:
            first.connect(found.path)
            first.sendall(b"x" * 2000)
            wait_for(lambda: "held already" in str(raw(found.path, b"x" * 2000)), "the bound")
        wait_for(lambda: isinstance(ask(found.path, Echo("x" * 2000), Said, 5), Said), "room again")
    finally:
        found.close()


def test_who_leaves_ends_the_work(door: Door) -> None:
    [wire] = sleepers(door, 1)
    wire.close()
    wait_for(lambda: door.left == 1, "its end")
    assert door.woken == 0


@pytest.mark.parametrize("leaves", [False, True])
def test_so_many_are_worked_on_and_the_others_wait(door: Door, leaves: bool) -> None:
    """Nothing is done for who left while it waited for a place."""
    *wires, last = sleepers(door, LIMITS.at_once + 1)
    if leaves:
        last.close()
        assert raw(door.path, b"x" * 5000)  # what was closed before has been seen by now
    else:
        wires.append(last)
    door.rouse()
    for wire in wires:
        assert b"awake" in wire.makefile("rb").readline()
        wire.close()
    assert ask(door.path, Echo("hello"), Said, 5) == Said("hello", os.getpid())
    assert door.asleep == len(wires)


def test_so_many_may_connect_but_for_the_keep(tmp_path: Path) -> None:
    for keep, is_in in ((-1, False), (None, True)):
        found = Door(str(tmp_path / f"{is_in}.sock"), LIMITS._replace(asking_seconds=10), keep)
        wires = [socket.socket(socket.AF_UNIX) for _ in range(LIMITS.connections)]
        for wire in wires:
            wire.connect(found.path)
        answer = ask(found.path, Health(), Healthy, 5)
        assert isinstance(answer, Healthy) is is_in
        assert is_in or "4 connections are open" in str(answer)
        for wire in wires:
            wire.close()
        wait_for(lambda path=found.path: ask(path, Health(), Healthy, 5) == Healthy(), "room again")  # type: ignore[misc]
        found.close()


def test_a_door_that_stops_gives_up_what_is_under_way(tmp_path: Path) -> None:
    found = Door(str(tmp_path / "door.sock"))
    [wire] = sleepers(found, 1)
    found.close()
    assert wire.makefile("rb").readline() == b""
    wire.close()
    assert found.left == 1
    with pytest.raises(DoorAway, match="did not answer"):
        ask(found.path, Health(), Healthy, 5)


def test_a_door_leaves_at_once_though_a_request_is_just_coming(tmp_path: Path) -> None:
    """In whichever turn of its loop it is asked to: it lets go of what would be answered much later."""

    async def answer(request: Sleep, caller: Caller) -> msgspec.Struct:
        await unless_left(caller, asyncio.sleep(20))
        return Healthy()

    async def leaves_after(turns: int, wire: socket.socket) -> None:
        leave = asyncio.Event()
        with listen(str(tmp_path / f"{turns}.sock")) as listening:
            serving = asyncio.create_task(DoorServer(Sleep, answer, failed, LIMITS).serve(listening, leave=leave))
            await asyncio.sleep(0)
            wire.connect(listening.getsockname())
            for _ in range(50):  # until nothing but the request is waited for
                await asyncio.sleep(0)
            leave.set()
            for _ in range(turns):
                await asyncio.sleep(0)
            wire.sendall(b'{"do":"sleep"}\n')
            await serving

    began = time.monotonic()
    for turns in range(8):
        with socket.socket(socket.AF_UNIX) as wire:
            asyncio.run(leaves_after(turns, wire))
    assert time.monotonic() - began < 10


# Sockets.


@pytest.fixture
def run() -> Iterator[Path]:
    """A short directory: a test's own may be too long for a socket."""
    directory = Path(tempfile.mkdtemp(prefix="mf-"))
    yield directory
    shutil.rmtree(directory)


def test_a_path_that_is_in_use_is_not_taken_over(run: Path) -> None:
    """Its directory is made, anyone whom that lets in may connect, and who listens goes on listening; what a dead
    program left there is replaced."""
    path = run / "deeper/door.sock"
    with listen(str(path)) as server:
        assert path.stat().st_mode & 0o777 == 0o666
        with pytest.raises(SocketTaken, match="already running"):
            listen(str(path))
        server.accept()[0].close()  # the second one's look
        with connect(str(path), 5.0) as client, server.accept()[0] as other:
            client.sendall(b"main\n")
            assert other.recv(10) == b"main\n"
    assert path.exists()
    with listen(str(path)), connect(str(path), 5.0):
        pass


def test_a_full_queue_is_no_sign_of_death(run: Path) -> None:
    """Its socket stays, and refuses nobody at once: there is room when somebody was accepted, or the time is over."""
    path = str(run / "s")
    with socket.socket(socket.AF_UNIX) as server, contextlib.ExitStack() as waiting:
        server.bind(path)
        server.listen(0)
        waiting.enter_context(connect(path, 1.0))
        with pytest.raises(TimeoutError, match="was full"):
            connect(path, 0.05)
        with pytest.raises(SocketTaken, match="busy"):
            listen(path)
        assert os.path.exists(path)
        accepting = threading.Timer(0.1, lambda: waiting.enter_context(server.accept()[0]))
        accepting.start()
        waiting.enter_context(connect(path, 5.0))
        accepting.join()


def test_what_is_no_socket_is_left_alone(run: Path) -> None:
    """Somebody's file is not ours to remove."""
    (run / "mine").write_text("mine")
    (run / "link").symlink_to(run / "mine")
    for name in ("mine", "link"):
        with pytest.raises(SocketTaken, match="is not a socket"):
            listen(str(run / name))
    assert (run / "link").read_text() == "mine"
    assert (run / "link").is_symlink()


def test_a_path_that_the_kernel_cannot_hold_is_refused(run: Path) -> None:
    """One byte too many is an error that says what to shorten; the longest that fits is fine. Bytes, not letters."""
    fits = f"{run}/" + "s" * (MAX_PATH_BYTES - len(f"{run}/"))
    listen(fits).close()
    for longer in (f"{fits}s", f"{run}/" + "é" * 60):
        with pytest.raises(ValueError, match="choose a shorter run directory"):
            listen(longer)

"""Sockets: one living listener at a path, and the dead are replaced."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.keep.sockets import MAX_PATH_BYTES, SocketTaken, listen
from infra.shared.door import connect


@pytest.fixture
def run() -> Iterator[Path]:
    """A short directory: a test's own may be too long for a socket."""
    directory = Path(tempfile.mkdtemp(prefix="mf-"))
    yield directory
    shutil.rmtree(directory)


def test_a_listener_is_reached(run: Path) -> None:
    """The directory is made, anyone whom it lets in may connect, and words go through."""
    path = run / "deeper/door.sock"
    with listen(str(path)) as server:
        assert path.stat().st_mode & 0o777 == 0o666
        with connect(str(path), 5.0) as client:
            other, _ = server.accept()
            with other:
                client.sendall(b"main\n")
                assert other.recv(10) == b"main\n"


def test_a_path_that_is_in_use_is_not_taken_over(run: Path) -> None:
    """The one who listens goes on listening."""
    path = str(run / "door.sock")
    with listen(path) as server:
        with pytest.raises(SocketTaken, match="already running"):
            listen(path)
        server.accept()[0].close()  # the second one's look
        with connect(path, 5.0):
            server.accept()[0].close()


def test_a_listener_too_busy_to_answer_is_alive(run: Path) -> None:
    """A full queue is no sign of death: its socket stays."""
    path = str(run / "door.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(0)
        waiting = []
        try:
            for _ in range(10):
                waiting.append(socket.socket(socket.AF_UNIX))
                waiting[-1].setblocking(False)
                try:
                    waiting[-1].connect(path)
                except BlockingIOError:
                    break
            else:
                raise AssertionError("the queue never filled")
            with pytest.raises(SocketTaken, match="busy"):
                listen(path)
        finally:
            for client in waiting:
                client.close()
        assert os.path.exists(path)


@pytest.mark.heavy
def test_the_socket_of_a_dead_program_is_replaced(run: Path) -> None:
    """A killed program leaves its socket; the next one must start all the same."""
    path = str(run / "door.sock")
    script = "import sys; from infra.keep.sockets import listen; listen(sys.argv[1]); sys.stdout.write('up')"
    subprocess.run([sys.executable, "-W", "ignore", "-c", script, path], check=True, stdout=subprocess.DEVNULL)
    assert os.path.exists(path)
    with listen(path), connect(path, 5.0):
        pass


@pytest.mark.parametrize("what", ["file", "directory", "link"])
def test_what_is_no_socket_is_left_alone(run: Path, what: str) -> None:
    """Somebody's file is not ours to remove."""
    path, mine = run / "door.sock", run / "mine"
    mine.write_text("mine")
    match what:
        case "file":
            path.write_text("mine")
        case "directory":
            path.mkdir()
        case "link":
            path.symlink_to(mine)
    with pytest.raises(SocketTaken, match="is not a socket"):
        listen(str(path))
    assert path.exists()
    assert mine.read_text() == "mine"


def test_a_path_that_the_kernel_cannot_hold_is_refused(run: Path) -> None:
    """One byte too many is an error that says what to shorten; the longest that fits is fine. Bytes, not letters."""
    fits = f"{run}/" + "s" * (MAX_PATH_BYTES - len(f"{run}/"))
    listen(fits).close()
    for longer in (f"{fits}s", f"{run}/" + "é" * 60):
        with pytest.raises(ValueError, match="choose a shorter run directory"):
            listen(longer)


def test_whoever_connects_waits_in_line(run: Path) -> None:
    """A full queue refuses nobody at once: there is room when somebody was accepted, or the time is over."""
    path = str(run / "s")
    with socket.socket(socket.AF_UNIX) as server, contextlib.ExitStack() as waiting:
        server.bind(path)
        server.listen(0)
        waiting.enter_context(connect(path, 1.0))
        with pytest.raises(TimeoutError, match="was full"):
            connect(path, 0.05)
        accepting = threading.Timer(0.1, lambda: waiting.enter_context(server.accept()[0]))
        accepting.start()
        waiting.enter_context(connect(path, 5.0))
        accepting.join()

"""Who may speak for the agent: the process that the watcher launched, and no other of the same user."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from infra.keep.door_server import peer_of
from infra.keep.git_door.caller import is_runner
from infra.keep.sockets import listen
from infra.keep.watcher_file import Runner, State, encode
from infra.shared.files import write_whole
from infra.shared.paths import Paths

CONNECT = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"


def note(places: Paths, pid: int) -> None:
    write_whole(places.watcher_state, encode(State(runner=Runner(pid=pid))))


def speaks(places: Paths, pid: int, patience: float = 0.0) -> bool:
    return asyncio.run(is_runner(places, pid, patience))


@pytest.fixture
def places(tmp_path: Path) -> Paths:
    made = Paths(bot=f"{tmp_path}/bot", remote=f"{tmp_path}/remote", run=f"{tmp_path}/run", var=f"{tmp_path}/var")
    os.makedirs(made.var)
    return made


@pytest.mark.attack("S65")
def test_a_command_of_the_cell_is_not_the_runner(places: Paths, tmp_path: Path) -> None:
    """The kernel names the process that connected: here a child of the runner, with all that the runner has."""
    note(places, os.getpid())
    with listen(f"{tmp_path}/s") as door:
        command = subprocess.Popen([sys.executable, "-c", CONNECT, f"{tmp_path}/s"])
        wire = door.accept()[0]
        with wire:
            pid, uid = peer_of(wire)
        command.wait()

    assert (pid, uid) == (command.pid, os.getuid())
    assert not speaks(places, pid)
    assert speaks(places, os.getpid())


def test_a_runner_that_asks_before_its_pid_is_noted_is_waited_for(places: Paths) -> None:
    late = threading.Timer(0.2, note, (places, os.getpid()))
    late.start()
    assert speaks(places, os.getpid(), patience=60.0)
    late.join()


@pytest.mark.parametrize("content", [None, b"", b"{", b"\xff", b'{"schema":"another","runner_pid":1}'])
def test_without_the_watcher_s_word_nobody_is(places: Paths, content: bytes | None) -> None:
    if content is not None:
        Path(places.watcher_state).write_bytes(content)
    assert not speaks(places, os.getpid())
    assert not speaks(places, 0)

"""Commands run within bounds: of time, and of what is kept of their output; and a request to end breaks off only what
said that it may be broken off."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from infra.cell.interruption import Interrupted, Interruption
from infra.cell.tools import command
from infra.cell.tools.command import Ran
from tests.cell.loop.waiting import gone, wait_for


def run(script: str, cwd: Path, seconds: float = 20.0, **more: Any) -> Ran:
    settings: dict[str, Any] = {"output_chars": 1000, "interruption": Interruption()} | more
    return command.run(["bash", "-c", script], cwd=str(cwd), env=dict(os.environ), seconds=seconds, **settings)


def test_output_and_status_come_back(tmp_path: Path) -> None:
    """Both streams, from where it is told to run; a negative status is that of a signal which ended it. It has no
    input and no terminal, and is followed to its own end when it closes its output."""
    assert run("pwd; echo two >&2; exit 3", tmp_path) == Ran(3, f"{tmp_path}\n", "two\n")
    assert run("kill -9 $$", tmp_path).status == -signal.SIGKILL
    assert run("read line || echo nothing; tty", tmp_path) == Ran(1, "nothing\nnot a tty\n")
    assert run("exec >&- 2>&-; sleep 0.1; exit 5", tmp_path).status == 5
    assert run(r"printf '\xc3'; sleep 0.05; printf '\xa4\xff'", tmp_path).output == "ä\ufffd"


def test_out_of_time_it_is_ended_with_what_it_started(tmp_path: Path) -> None:
    """Its whole group is gone, also what ignores a polite signal; what was written until then is kept."""
    ran = run("trap '' TERM; sleep 100 & echo $!; wait", tmp_path, seconds=0.2)
    assert ran.status is None
    wait_for(lambda: gone(int(ran.output)), "the background process is gone")


def test_a_background_process_does_not_hang_it(tmp_path: Path) -> None:
    """The command is over when it ends, not when everything that inherited its output does; with `end_group` nothing
    is left."""
    ran = run("sleep 100 & echo $!", tmp_path)
    assert ran.status == 0
    pid = int(ran.output)
    assert not gone(pid), "it was left to run"
    os.kill(pid, signal.SIGKILL)
    ran = run("sleep 100 & echo $!", tmp_path, end_group=True)
    assert ran.status == 0
    wait_for(lambda: gone(int(ran.output)), "the background process is gone")


def test_an_interruption_ends_the_whole_group(tmp_path: Path) -> None:
    """Nothing of a command outlives the request to end."""
    interruption = Interruption()
    main = threading.get_ident()
    before = signal.signal(signal.SIGUSR1, lambda *_: interruption.ask())
    pid_file = tmp_path / "pid"

    def ask_when_it_runs() -> None:
        wait_for(lambda: pid_file.exists() and pid_file.read_text().strip(), "the command runs")
        signal.pthread_kill(main, signal.SIGUSR1)

    asker = threading.Thread(target=ask_when_it_runs)
    asker.start()
    try:
        with pytest.raises(Interrupted):
            run("sleep 100 & echo $! > pid; wait", tmp_path, interruption=interruption)
    finally:
        asker.join()
        signal.signal(signal.SIGUSR1, before)
    wait_for(lambda: gone(int(pid_file.read_text())), "the background process is gone")


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    """A runner that lives for months runs many commands."""
    run("true", tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        run("echo x", tmp_path)
        run("sleep 9", tmp_path, seconds=0.01)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_request_outside_of_a_block_is_only_noted() -> None:
    """What may not be broken off goes on; the next place that may be is where it ends."""
    interruption = Interruption()
    with interruption, interruption:
        interruption.check()

    interruption.ask()

    assert interruption.asked
    with pytest.raises(Interrupted):
        interruption.check()
    with pytest.raises(Interrupted), interruption:
        pytest.fail("a block was entered after the request to end")


def test_a_request_inside_of_a_block_breaks_it_off() -> None:
    """At once, and once: cleaning up is not broken off by a second. No handler of trouble takes it."""
    interruption = Interruption()
    went_on = list[bool]()

    def block() -> None:
        with interruption:
            interruption.ask()
            went_on.append(True)

    with pytest.raises(Interrupted):
        block()
    interruption.ask()
    assert went_on == []
    assert not issubclass(Interrupted, Exception)

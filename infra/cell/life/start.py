"""A start of the runner up to SUCCESS: what must be there before it may say that it can work (`SPEC_BOOT`).

Its duration is measured, so it imports only cheap modules: no subprocess, no logging, no HTTP. A start that fails in
order says why in the boot log and ends with a code that tells a bad version from a door that does not answer."""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
import time
from collections.abc import Callable

from infra.cell.status_file import BOOTING, RunnerStatus, write_status
from infra.shared import boot as boot_values
from infra.shared import heart
from infra.shared.boot import FAILED, SUCCESS, Boot, BootLine, format_line
from infra.shared.clock import timestamp
from infra.shared.door import connect
from infra.shared.exit_codes import Exit
from infra.shared.paths import BASE_PROMPT, BOOT_LOG, LIFE_FILE
from infra.shared.secret_shapes import redacted

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.005, 0.2
"""Doors are started together with the runner and may need a moment."""
COMMAND_SECONDS = 10.0
SLACK_SECONDS = 60.0
"""Added to every promise of the main loop: a busy machine is slow."""
HEALTH = b'{"do":"health"}\n'
"""`door.Health`, in the words of `door.ask`: its modules take too long to load."""


Launch = tuple[str, str, str]
"""Boot id, branch and commit, as the lines of the boot log name a start."""


class Unfit(Exception):
    """This start cannot go on; carries the exit code."""

    def __init__(self, code: Exit, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def boot_value(text: str) -> Boot:
    """What the watcher says about this start. Raises Unfit."""
    if not text:
        raise Unfit(Exit.CONFIG, f"{boot_values.VARIABLE} is not set; the watcher starts runners: 'minifram up'")
    try:
        return boot_values.from_json(text)
    except ValueError as error:
        raise Unfit(Exit.CONFIG, str(error)) from None


def preflight(boot: Boot, checkout: str) -> heart.Heart:
    """Look at everything that work will need; gives the heart, which has begun to beat. Raises Unfit with the first
    thing that is missing."""
    beating = heart.inherited(os.environ, SLACK_SECONDS)
    beating.beat("booting", boot.limits.door_seconds + COMMAND_SECONDS)
    _look_at_everything(boot, checkout)
    return beating


def succeeded(boot: Boot, checkout: str) -> None:
    line = BootLine(timestamp(time.time()), SUCCESS, boot.branch, boot.commit, boot.id)
    append_line(f"{checkout}/{BOOT_LOG}", line)


def failed(launch: Launch, reason: str, code: int, checkout: str) -> None:
    boot_id, branch, commit = launch
    details = {"reason": redacted(reason), "exit": str(int(code))}
    print(f"runner: the boot failed: {reason}", file=sys.stderr, flush=True)
    try:
        line = BootLine(timestamp(time.time()), FAILED, branch, commit, boot_id, details)
        append_line(f"{checkout}/{BOOT_LOG}", line)
    except OSError as error:
        print(f"runner: the boot log cannot be written: {error}", file=sys.stderr, flush=True)


def _look_at_everything(boot: Boot, checkout: str) -> None:
    command = _start_command()  # runs while the doors are asked
    try:
        _read_prompt(f"{boot.code}/{BASE_PROMPT}")
        _write_status(f"{checkout}/{LIFE_FILE}")
        until = time.monotonic() + boot.limits.door_seconds
        _ask_door("model door", boot.places.model_socket, _is_healthy, until, boot.limits.door_seconds)
        _ask_door("git door", boot.places.git_socket, _answers, until, boot.limits.door_seconds)
    finally:
        status = _end_of(command)
    if status != 0:
        raise Unfit(Exit.FAILURE, f"the command 'bash -c true' ended with status {status}; expected 0")


def _read_prompt(path: str) -> None:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Unfit(Exit.FAILURE, f"SYSTEM.md cannot be read ({error}); it is the base prompt, put it back") from None
    if not text.strip():
        raise Unfit(Exit.FAILURE, "SYSTEM.md is empty; it is the base prompt, put it back")


def _write_status(path: str) -> None:
    try:
        write_status(path, RunnerStatus(BOOTING, timestamp(time.time())))
    except OSError as error:
        raise Unfit(Exit.FAILURE, f"nothing can be written under logs/ ({error})") from None


def _start_command() -> int:
    """Start a command that does nothing: if bash does not run, no tool will. Gives its pid."""
    try:
        return os.posix_spawnp("bash", ["bash", "-c", "true"], os.environ)
    except OSError as error:
        raise Unfit(Exit.FAILURE, f"bash cannot be run ({error})") from None


def _end_of(pid: int) -> int:
    """The exit status of the command, which is given `COMMAND_SECONDS`."""
    exit_seen = os.pidfd_open(pid)
    try:
        poller = select.poll()
        poller.register(exit_seen, select.POLLIN)
        if not poller.poll(COMMAND_SECONDS * 1000):
            os.kill(pid, signal.SIGKILL)
    finally:
        os.close(exit_seen)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _ask_door(name: str, path: str, answers: Callable[[str, float], str], until: float, patience: float) -> None:
    """Ask until the door answers as it should; `answers` gives what is wrong, or nothing. Raises Unfit."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            problem = answers(path, max(until - time.monotonic(), 0.01))
        except OSError as error:
            problem = str(error)
        if not problem:
            return
        if time.monotonic() + pause >= until:
            raise Unfit(Exit.UNAVAILABLE, f"the {name} at {path} did not answer within {patience:g} s: {problem}")
        time.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


def _is_healthy(path: str, timeout_seconds: float) -> str:
    with connect(path, timeout_seconds) as door:
        door.sendall(b'{"do":"health"}\n')
        line = _first_line(door.recv)
    return "" if line.startswith(b'{"answer"') else f"answered {line[:80]!r}; expected an answer"


def _answers(path: str, timeout_seconds: float) -> str:
    with connect(path, timeout_seconds) as door:
        door.sendall(HEALTH)
        line = _first_line(door.recv)
    return "" if line.startswith(b'{"answer"') else f"answered {line[:80]!r}; expected an answer"


def _first_line(receive: Callable[[int], bytes]) -> bytes:
    received = b""
    while b"\n" not in received and len(received) < 4096:
        piece = receive(4096)
        if not piece:
            break
        received += piece
    return received.partition(b"\n")[0]


def append_line(path: str, line: BootLine) -> None:
    """Append in one write, so that the lines of two writers never mix. Raises OSError, also after a partial write. An
    incomplete line of an earlier writer is terminated first."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        content = b"\n" * torn + format_line(line).encode()
        if os.write(descriptor, content) < len(content):
            raise OSError(errno.ENOSPC, "only a part of the line could be written", path)
    finally:
        os.close(descriptor)

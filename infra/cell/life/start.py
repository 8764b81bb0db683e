"""A start of the runner up to SUCCESS: what must be there before it may say that it can work (`SPEC_BOOT`).

Its duration is measured, so it imports only cheap modules: no subprocess, no logging. A start that fails in order says
why in the boot log and ends with a code that tells a bad version from a door that does not answer."""

from __future__ import annotations

import os
import sys
import time

from infra.cell.life.boot_log import append
from infra.cell.status import BOOTING, RunnerStatus, write_status
from infra.shared import boot as boot_values
from infra.shared import heart
from infra.shared.boot import FAILED, SUCCESS, Boot, BootLine, format_line
from infra.shared.clock import timestamp
from infra.shared.door import DoorAway, Failure, Health, Healthy, ask
from infra.shared.exit_codes import Exit
from infra.shared.paths import BASE_PROMPT, BOOT_LOG, LIFE_FILE
from infra.shared.secret_shapes import redacted

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.005, 0.2
"""Doors are started together with the runner and may need a moment."""
COMMAND_SECONDS = 10.0
SLACK_SECONDS = 60.0
"""Added to every promise of the main loop: a busy machine is slow."""
Launch = tuple[str, str, str]
"""Branch, commit and id of a boot, as the lines of the boot log name it."""


class Unfit(Exception):
    """This start cannot go on; carries the exit code."""

    def __init__(self, code: Exit, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def come_up(launch: Launch, checkout: str) -> tuple[Boot, heart.Heart]:
    """See whether this version can work here, and say so in the boot log: SUCCESS, or FAILED with the reason, and then
    the process ends. Gives what the watcher says about this start, and the heart, which has begun to beat."""
    try:
        boot = _boot_value(os.environ.pop(boot_values.VARIABLE, ""))
        beating = heart.inherited(os.environ, SLACK_SECONDS)
        beating.beat("booting", boot.limits.door_seconds + COMMAND_SECONDS)
        preflight(boot, checkout)
        line = BootLine(timestamp(time.time()), SUCCESS, boot.branch, boot.commit, boot.id)
        append(f"{checkout}/{BOOT_LOG}", format_line(line))
    except Unfit as unfit:
        failed(launch, str(unfit), unfit.code, checkout)
        sys.exit(unfit.code)
    except Exception as error:
        failed(launch, f"{type(error).__name__}: {error}; see errors.log", Exit.FAILURE, checkout)
        raise
    return boot, beating


def failed(launch: Launch, reason: str, code: Exit, checkout: str) -> None:
    details = {"reason": redacted(reason), "exit": str(int(code))}
    print(f"runner: the boot failed: {reason}", file=sys.stderr, flush=True)
    try:
        append(f"{checkout}/{BOOT_LOG}", format_line(BootLine(timestamp(time.time()), FAILED, *launch, details)))
    except OSError as error:
        print(f"runner: the boot log cannot be written: {error}", file=sys.stderr, flush=True)


def preflight(boot: Boot, checkout: str) -> None:
    """Look at everything that work will need. Raises Unfit with the first thing that is missing."""
    command = _start_command()  # runs while the doors are asked
    try:
        _read_prompt(f"{boot.code}/{BASE_PROMPT}")
        _write_status(f"{checkout}/{LIFE_FILE}")
        until = time.monotonic() + boot.limits.door_seconds
        for name, path in (("model door", boot.places.model_socket), ("git door", boot.places.git_socket)):
            _ask_door(name, path, until, boot.limits.door_seconds)
    finally:
        status = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
    if status != 0:
        raise Unfit(Exit.FAILURE, f"the command 'bash -c true' ended with status {status}; expected 0")


def _boot_value(text: str) -> Boot:
    if not text:
        raise Unfit(Exit.CONFIG, f"{boot_values.VARIABLE} is not set; the watcher starts runners: 'minifram up'")
    try:
        return boot_values.from_json(text)
    except ValueError as error:
        raise Unfit(Exit.CONFIG, str(error)) from None


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
    """Start a command that does nothing: if bash does not run, no tool will. Gives its pid. One that hangs is the
    watcher's to end, with this process."""
    try:
        return os.posix_spawnp("bash", ["bash", "-c", "true"], os.environ)
    except OSError as error:
        raise Unfit(Exit.FAILURE, f"bash cannot be run ({error})") from None


def _ask_door(name: str, path: str, until: float, patience: float) -> None:
    """Ask until the door says that it is healthy. Raises Unfit."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            answer = ask(path, Health(), Healthy, max(until - time.monotonic(), 0.01))
        except DoorAway as error:
            problem = str(error)
        else:
            if not isinstance(answer, Failure):
                return
            problem = f"{answer.type}: {answer.message}"
        if time.monotonic() + pause >= until:
            raise Unfit(Exit.UNAVAILABLE, f"the {name} did not answer within {patience:g} s: {problem}")
        time.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

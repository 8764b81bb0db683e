"""A start of the runner up to SUCCESS: what must be there before it may say that it can work (`SPEC_BOOT`).

Its duration is measured, so it imports only cheap modules: no subprocess, no logging. A start that fails in order says
why in the boot log and ends with a code that tells a bad version from a door that does not answer."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator

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


@contextlib.contextmanager
def needs(words: str, code: Exit = Exit.FAILURE) -> Iterator[None]:
    """What raises OSError or ValueError in here makes the start Unfit, with these words before its own."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise Unfit(code, f"{words}: {error}") from None


def come_up(launch: Launch, checkout: str) -> tuple[Boot, heart.Heart]:
    """See whether this version can work here, and say so in the boot log: SUCCESS, or FAILED with the reason, and then
    the process ends. Gives what the watcher says about this start, and the heart, which has begun to beat."""
    try:
        with needs("runners are started by the watcher ('minifram up')", Exit.CONFIG):
            boot = boot_values.from_json(os.environ.pop(boot_values.VARIABLE, ""))
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
    """Say so on stderr and in the boot log."""
    details = {"reason": redacted(reason), "exit": str(int(code))}
    print(f"runner: the boot failed: {reason}", file=sys.stderr, flush=True)
    try:
        append(f"{checkout}/{BOOT_LOG}", format_line(BootLine(timestamp(time.time()), FAILED, *launch, details)))
    except OSError as error:
        print(f"runner: the boot log cannot be written: {error}", file=sys.stderr, flush=True)


def preflight(boot: Boot, checkout: str) -> None:
    """Look at everything that work will need. Raises Unfit with the first thing that is missing."""
    with needs("bash cannot be run"):  # then no tool will; it runs while the doors are asked
        command = os.posix_spawnp("bash", ["bash", "-c", "true"], os.environ)
    prompt = f"{boot.code}/{BASE_PROMPT}"
    with needs("SYSTEM.md cannot be used; it is the base prompt, put it back"), open(prompt, encoding="utf-8") as file:
        if not file.read().strip():
            raise ValueError("it is empty")
    with needs("nothing can be written under logs/"):
        write_status(f"{checkout}/{LIFE_FILE}", RunnerStatus(BOOTING, timestamp(time.time())))
    patience = boot.limits.door_seconds
    until = time.monotonic() + patience
    for name, path in (("model door", boot.places.model_socket), ("git door", boot.places.git_socket)):
        with needs(f"the {name} was not healthy within {patience:g} s", Exit.UNAVAILABLE):
            _ask_door(path, until)
    if status := os.waitstatus_to_exitcode(os.waitpid(command, 0)[1]):
        raise Unfit(Exit.FAILURE, f"the command 'bash -c true' ended with status {status}; expected 0")


def _ask_door(path: str, until: float) -> None:
    """Ask until the door says that it is healthy. Raises DoorAway."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            answer = ask(path, Health(), Healthy, max(until - time.monotonic(), 0.01))
            if isinstance(answer, Failure):
                raise DoorAway(f"{answer.type}: {answer.message}")
            return
        except DoorAway:
            if time.monotonic() + pause >= until:
                raise
        time.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

"""Process start → SUCCESS written, of the real runner in a newborn agent's checkout with both doors running.

The moment of SUCCESS is when the kernel says (inotify) that the boot log was written and the line is there. What was
imported until then is listed by the interpreter itself, in starts of their own (`-X importtime`)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import secrets
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import structlog

from bench.scene import born, doors_answer, places_in, within
from bench.stamps import PATIENCE_SECONDS, now, progress
from bench.tables import TIMES_HEAD, Figure, Table, Verdict, at_most, distance, times_row
from infra.keep.git_door.door_files import write_door_files
from infra.keep.services import children, processes, services
from infra.keep.supervision import checkouts
from infra.shared import boot_files
from infra.shared.boot import Boot
from infra.shared.boot_log import FAILED, SUCCESS, parse_line
from infra.shared.branches import MAIN
from infra.shared.paths import BOOT_LOG
from infra.shared.safe_files import Below
from infra.shared.settings import Settings, runner_limits

ROUNDS = 30
GOAL = 5.0
SDKS = ("anthropic", "openai", "httpx2", "httpx", "pydantic", "litellm", "starlette", "uvicorn")
_IN_MODIFY = 2


def run(directory: Path, rounds: int | None) -> Figure:
    wanted = rounds or ROUNDS
    bare: list[float] = []
    plain: list[float] = []
    ours: list[float] = []
    with contextlib.ExitStack() as cleanup:
        runner = cleanup.enter_context(_runner_to_start(directory))
        for _ in range(2):  # compiles what is imported
            runner.seconds_to_success()
        for number in range(wanted):
            progress("start", f"round {number + 1} of {wanted}")
            for measure in _order(number, bare, plain, ours):
                if measure is ours:
                    ours.append(runner.seconds_to_success())
                else:
                    words = ["-I", "-c", "pass"] if measure is bare else ["-E", "-s", "-c", "pass"]
                    measure.append(_seconds_of([sys.executable, *words]))
        progress("start", "what is imported before SUCCESS")
        imported = runner.imported_until_success()
    control = _imported_by("import anthropic")
    table = Table(
        "start of the process -> SUCCESS in the boot log (real runner, newborn agent, both doors answering)",
        TIMES_HEAD,
        (
            times_row("python -I -c pass, start to exit", bare),
            times_row("python -E -s -c pass, start to exit (the runner's own flags)", plain, bare),
            times_row("runner, start to SUCCESS", ours, bare),
        ),
        ("All three are started in the same way (a session of their own, no input, output to a file), bytecode warm.",),
    )
    verdicts = (
        at_most("start to SUCCESS", ours, "python -I -c pass", bare, GOAL),
        distance("the same", ours, "python -E -s -c pass", plain),
        no_sdk(imported, control),
    )
    return Figure((table,), verdicts)


def _order(number: int, *lists: list[float]) -> list[list[float]]:
    by = number % len(lists)
    return [*lists[by:], *lists[:by]]


def no_sdk(imported: list[str], control: list[str]) -> Verdict:
    """`imported` is what was imported until SUCCESS; `control` shows that the same look finds an SDK that is there."""
    found, seen = top_names(imported) & set(SDKS), top_names(control) & set(SDKS)
    how = f"-X importtime lists {len(imported)} modules ({len(control)} for anthropic)"
    if "anthropic" not in seen:
        return Verdict(False, f"no SDK before SUCCESS: CANNOT BE TOLD, the control found no anthropic; {how}")
    if found:
        return Verdict(False, f"no SDK before SUCCESS: MISSED, {', '.join(sorted(found))} imported; {how}")
    return Verdict(True, f"no SDK before SUCCESS: {how}, no {', '.join(SDKS[:3])} or the like: met")


def top_names(modules: list[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def import_times(text: str) -> list[str]:
    """The modules that `-X importtime` lists, in order."""
    return re.findall(r"^import time:\s+\d+ \|\s+\d+ \|\s+(\S+)$", text, re.MULTILINE)


def _seconds_of(words: list[str]) -> float:
    """From the start to the exit of a process that is started as the watcher starts a runner."""
    began = now()
    process = subprocess.Popen(
        words,
        env={"PATH": os.defpath, "LANG": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    process.wait()
    ended = now()
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {process.returncode}; expected 0")
    return ended - began


def _imported_by(statement: str) -> list[str]:
    words = [sys.executable, "-I", "-X", "importtime", "-c", statement]
    return import_times(subprocess.run(words, capture_output=True, text=True, check=True).stderr)


class _Runner:
    """The main runner of one agent, to be started again and again and killed when it has said SUCCESS."""

    def __init__(self, boot: Boot) -> None:
        self._boot = boot
        self._bot = Below(boot.places.bot)
        self._checkout = boot.places.main_checkout
        self._log = f"{self._checkout}/{BOOT_LOG}"
        os.makedirs(os.path.dirname(self._log), exist_ok=True)
        with open(self._log, "ab"):
            pass
        libc = ctypes.CDLL(None, use_errno=True)
        self._events = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._events < 0 or libc.inotify_add_watch(self._events, os.fsencode(self._log), _IN_MODIFY) < 0:
            raise OSError(ctypes.get_errno(), f"inotify on {self._log} was refused")

    def seconds_to_success(self) -> float:
        boot = self._boot._replace(id=secrets.token_hex(16))
        error_log, _ = boot_files.open_error_log(self._bot, self._checkout, 1 << 30)
        try:
            began = now()
            process = children.spawn(boot, children.runner_command(), error_log)
        finally:
            os.close(error_log)
        with _killed_afterwards(process):
            return self._await_success(boot.id) - began

    def imported_until_success(self) -> list[str]:
        boot = self._boot._replace(id=secrets.token_hex(16))
        python, *words = children.runner_command()
        listed = Path(f"{self._checkout}/logs/imports")
        with open(listed, "wb") as output:
            process = subprocess.Popen(
                [python, "-X", "importtime", *words],
                cwd=self._checkout,
                env=children.cell_environment(boot),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        with _killed_afterwards(process):
            self._await_success(boot.id)
        modules = import_times(listed.read_text(errors="replace"))
        if "infra.cell.runner.start" not in modules:
            raise RuntimeError(
                "-X importtime does not list infra.cell.runner.start, which the runner's start is made of"
            )
        return modules

    def _await_success(self, boot_id: str) -> float:
        poller = select.poll()
        poller.register(self._events, select.POLLIN)
        while True:
            if not poller.poll(PATIENCE_SECONDS * 1000):
                raise TimeoutError(
                    f"the runner did not write SUCCESS within {PATIENCE_SECONDS:g} s: {self._last_words()}"
                )
            seen = now()
            os.read(self._events, 65536)
            for text in self._bot.tail(self._log, 2000).decode(errors="replace").splitlines(keepends=True):
                line = parse_line(text)
                if line and line.boot_id == boot_id and line.word == SUCCESS:
                    return seen
                if line and line.boot_id == boot_id and line.word == FAILED:
                    raise RuntimeError(f"the runner said FAILED: {line.details}; {self._last_words()}")

    def _last_words(self) -> str:
        return boot_files.last_words(self._bot, self._checkout, 0)

    def close(self) -> None:
        os.close(self._events)


@contextlib.contextmanager
def _killed_afterwards(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        processes.ask_group(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def _runner_to_start(directory: Path) -> Iterator[_Runner]:
    """A newborn agent with its doors, as the watcher would have it right before it starts main."""
    places = places_in(directory)
    commit = born(places)
    settings_file = directory / "minifram.yaml"
    settings_file.write_text("{}\n")
    settings = Settings()
    os.makedirs(places.signals, exist_ok=True)
    write_door_files(places, settings)
    ready = checkouts.ready(checkouts.Cell(places, places.remote), MAIN, 0.0)
    assert ready.commit == commit
    log = structlog.wrap_logger(structlog.PrintLogger(open(directory / "doors.events", "w")))  # noqa: SIM115 - lives as long as the logger
    given = services.doors(str(settings_file), places)
    doors = services.Services(given, places, settings.limits.log_bytes, log)
    boot = Boot(
        id="",
        branch=MAIN,
        commit=commit,
        reason="start",
        remote_url=places.remote,
        autonomy=settings.autonomy,
        places=places,
        limits=runner_limits(settings),
    )
    runner = _Runner(boot)
    try:
        doors.tend(now())
        within(PATIENCE_SECONDS, lambda: doors_answer(places), "the doors answering")
        yield runner
    finally:
        doors.end(settings.limits.grace_seconds)
        processes.end_strays(places, "")
        runner.close()

"""The services of main's runner: a thread that starts them, starts those again that ended, and ends those that take too
much. They end with the runner; the next one starts them again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from infra.cell.services import processes
from infra.cell.services.declared import FILE, Declared, Service, read
from infra.cell.services.judge import WINDOW_SECONDS, Allowance, Taken, allowance, excess, pause_after
from infra.cell.services.output import ServiceLog
from infra.shared.safe_files import Below

POLL_SECONDS = 0.2
SAMPLE_SECONDS = 2.0
POLITE_SECONDS = 0.5
NICE = 10
LOGS = "logs/services"

Log = Callable[..., object]


@dataclass
class _Running:
    """One service, as it is now."""

    service: Service
    output: ServiceLog
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    next_start: float = 0.0
    ends: int = 0
    """In a row."""
    why: str = ""
    """It ended last."""
    cpu_at: float = 0.0
    """Processor time at the beginning of the window."""

    def words(self) -> str:
        if self.process:
            return f"{self.service.name} running" + (f" (ended {self.ends} times: {self.why})" if self.ends else "")
        return f"{self.service.name} ended, {self.why}"


class Services:
    """Those of one checkout. Without `start`, nothing runs."""

    def __init__(
        self,
        checkout: str,
        environment: Callable[[], Mapping[str, str]],
        log: Log,
        show: Callable[[str], None],
        allowed: Allowance | None = None,
    ) -> None:
        """`show` is told in words how they are, whenever that changes."""
        self._checkout = checkout
        self._environment = environment
        self._files = Below(checkout)
        self._log = log
        self._show = show
        self._allowed = allowed
        self._lock = threading.Lock()
        self._running: dict[str, _Running] = {}
        self._stamp: object = None
        self._problem = ""
        self._shown = ""
        self._window_began = 0.0
        self._sampled = 0.0
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self.refresh()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def refresh(self) -> None:
        """Look at once."""
        try:
            with self._lock:
                self._look(time.monotonic())
                words = self._words()
            if words != self._shown:
                self._shown = words
                self._show(words)
        except Exception as error:  # nothing in that file, or of what it starts, ends a runner
            self._log("services.broken", error=f"{type(error).__name__}: {error}")

    @property
    def problem(self) -> str:
        """What is wrong with the file; empty for nothing."""
        with self._lock:
            return self._problem

    def words(self) -> str:
        """How they are; empty for none."""
        with self._lock:
            return self._words()

    def pids(self) -> frozenset[int]:
        with self._lock:
            return frozenset(each.process.pid for each in self._running.values() if each.process)

    def close(self) -> None:
        """End them all."""
        self._closing.set()
        if self._thread:
            self._thread.join(2 * POLITE_SECONDS)
        with self._lock:
            self._end(list(self._running.values()))
            self._running.clear()

    def _serve(self) -> None:
        while not self._closing.wait(POLL_SECONDS):
            self.refresh()

    def _look(self, now: float) -> None:
        stamp = _stamp_of(os.path.join(self._checkout, FILE))
        if stamp != self._stamp:
            self._stamp = stamp
            self._declare(read(self._checkout), now)
        for each in self._running.values():
            if each.process and each.output.flood:
                # Here and not by the watcher, which looks once a minute and would end the runner for it.
                self._end([each])
                self._ended(each, each.output.flood, now)
            if each.process and each.process.poll() is not None:
                self._ended(each, _how(each.process.returncode), now)
            if not each.process and now >= each.next_start:
                self._start(each, now)
        if self._running and now - self._sampled >= SAMPLE_SECONDS:
            self._sampled = now
            self._weigh(now)

    def _declare(self, found: Declared, now: float) -> None:
        """What runs goes on while the file cannot be used: it may be in the middle of a change."""
        self._problem = found.problem
        if found.problem:
            self._log("services.not_understood", problem=found.problem)
            return
        wanted = {service.name: service for service in found.services}
        gone = [each for name, each in self._running.items() if wanted.get(name) != each.service]
        self._end(gone)
        for each in gone:
            del self._running[each.service.name]
        for name, service in wanted.items():
            self._running.setdefault(name, _Running(service, ServiceLog(self._files, f"{LOGS}/{name}.log")))

    def _start(self, each: _Running, now: float) -> None:
        name, command, directory = each.service
        try:
            where = os.path.join(self._checkout, directory)
            os.makedirs(os.path.join(self._checkout, LOGS), exist_ok=True)
            out = each.output.pipe()
            try:
                each.process = subprocess.Popen(
                    command,
                    cwd=where,
                    env=dict(self._environment()),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                )
            finally:
                os.close(out)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            each.started_at = now
            self._ended(each, f"it cannot be started: {error}", now)
            return
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, each.process.pid, NICE)
        each.started_at, each.cpu_at = now, 0.0
        self._log("service.started", service=name, pid=each.process.pid)

    def _ended(self, each: _Running, why: str, now: float) -> None:
        if each.process:
            processes.signal_tree(each.process.pid, signal.SIGKILL)
        pause, each.ends = pause_after(each.ends, now - each.started_at)
        each.process, each.why, each.next_start = None, why, now + pause
        self._log("service.ended", service=each.service.name, why=why, next_start_in=pause)

    def _weigh(self, now: float) -> None:
        if self._allowed is None:
            self._allowed = allowance(processes.memory_of_cell(), processes.processors_of_cell())
        total = {name: processes.taken_by(each.process.pid) for name, each in self._running.items() if each.process}
        taken = {
            name: Taken(so_far.memory_bytes, max(0.0, so_far.cpu_seconds - self._running[name].cpu_at))
            for name, so_far in total.items()
        }
        over = excess(taken, self._allowed, now - self._window_began)
        if over:
            each = self._running[over[0]]
            self._end([each])
            self._ended(each, over[1], now)
        if over or now - self._window_began >= WINDOW_SECONDS:
            self._window_began = now
            for name, so_far in total.items():
                self._running[name].cpu_at = so_far.cpu_seconds

    def _end(self, gone: list[_Running]) -> None:
        alive = [each.process for each in gone if each.process]
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in alive:
                processes.signal_tree(process.pid, number)
            until = time.monotonic() + POLITE_SECONDS
            while any(process.poll() is None for process in alive) and time.monotonic() < until:
                time.sleep(0.01)

    def _words(self) -> str:
        states = [each.words() for _, each in sorted(self._running.items())]
        return "; ".join(filter(None, (self._problem, *states)))


def _stamp_of(path: str) -> object:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns)


def _how(status: int) -> str:
    return f"exit status {status}" if status >= 0 else f"signal {-status}"

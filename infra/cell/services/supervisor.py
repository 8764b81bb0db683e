"""The services of main's runner: a thread that starts them, and starts those again that ended. They end with the
runner; the next one starts them again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from infra.cell.services.declared import Service, read
from infra.cell.services.output import ServiceLog
from infra.cell.services.processes import signal_tree
from infra.shared.safe_files import Below

POLL_SECONDS = 0.2
POLITE_SECONDS = 0.5
NICE, OOM_SCORE = 10, 1000
"""Under pressure the kernel takes a service first (proc(5), oom_score_adj)."""
PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 300.0)
"""Before each further start; the last of them repeats."""
SETTLED_SECONDS = 60.0
"""A service that has run so long begins with the first pause again."""
LOGS = "logs/services"


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

    def words(self) -> str:
        if self.process:
            return f"{self.service.name} running" + (f" (ended {self.ends} times: {self.why})" if self.ends else "")
        return f"{self.service.name} ended, {self.why}"


class Services:
    """Those of one checkout. Without `start`, nothing runs."""

    def __init__(
        self,
        checkout: str,
        declared_in: str,
        environment: Callable[[], Mapping[str, str]],
        log: Callable[..., object],
        show: Callable[[str], None],
    ) -> None:
        """`declared_in` holds `services.yaml`, which is read once: another one is another version. `show` is told in
        words how they are, whenever that changes."""
        found, files = read(declared_in), Below(checkout)
        self.problem = found.problem
        """What is wrong with the file; empty for nothing."""
        self._checkout, self._environment, self._log, self._show = checkout, environment, log, show
        logs = [ServiceLog(files, f"{LOGS}/{service.name}.log") for service in found.services]
        self._running = [_Running(*each) for each in zip(found.services, logs, strict=True)]
        self._shown = ""
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def start(self) -> None:
        self._look()
        if self._running:
            self._thread.start()

    def words(self) -> str:
        """How they are; empty for none."""
        with self._lock:
            return "; ".join(filter(None, (self.problem, *(each.words() for each in self._running))))

    def pids(self) -> frozenset[int]:
        with self._lock:
            return frozenset(each.process.pid for each in self._running if each.process)

    def close(self) -> None:
        """End them all."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(2 * POLITE_SECONDS)
        with self._lock:
            alive = [each.process for each in self._running if each.process]
            for number in (signal.SIGTERM, signal.SIGKILL):
                for process in alive:
                    signal_tree(process.pid, number)
                until = time.monotonic() + POLITE_SECONDS
                while any(process.poll() is None for process in alive) and time.monotonic() < until:
                    time.sleep(0.01)
            self._running = []

    def _serve(self) -> None:
        while not self._closing.wait(POLL_SECONDS):
            self._look()

    def _look(self) -> None:
        try:
            with self._lock:
                for each in self._running:
                    self._tend(each, time.monotonic())
            words = self.words()
            if words != self._shown:
                self._shown = words
                self._show(words)
        except Exception as error:  # nothing of what is started ends a runner
            self._log("services.broken", error=f"{type(error).__name__}: {error}")

    def _tend(self, each: _Running, now: float) -> None:
        if each.process and each.output.flood:
            # Here and not by the watcher, which looks once a minute and would end the runner for it.
            self._ended(each, each.output.flood, now)
        elif each.process and (status := each.process.poll()) is not None:
            self._ended(each, f"exit status {status}" if status >= 0 else f"signal {-status}", now)
        elif not each.process and now >= each.next_start and not self._closing.is_set():
            try:
                self._start(each, now)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                self._ended(each, f"it cannot be started: {error}", now)

    def _start(self, each: _Running, now: float) -> None:
        each.started_at = now
        os.makedirs(os.path.join(self._checkout, LOGS), exist_ok=True)
        out = each.output.pipe()
        try:
            each.process = subprocess.Popen(
                each.service.command,
                cwd=os.path.join(self._checkout, each.service.directory),
                env=dict(self._environment()),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        finally:
            os.close(out)
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, each.process.pid, NICE)
            with open(f"/proc/{each.process.pid}/oom_score_adj", "w", encoding="ascii") as file:
                file.write(str(OOM_SCORE))
        self._log("service.started", service=each.service.name, pid=each.process.pid)

    def _ended(self, each: _Running, why: str, now: float) -> None:
        if each.process:
            signal_tree(each.process.pid, signal.SIGKILL)
            each.process.wait(POLITE_SECONDS)
        each.ends = 0 if now - each.started_at >= SETTLED_SECONDS else each.ends
        pause = PAUSES_SECONDS[min(each.ends, len(PAUSES_SECONDS) - 1)]
        each.process, each.why, each.next_start, each.ends = None, why, now + pause, each.ends + 1
        self._log("service.ended", service=each.service.name, why=why, next_start_in=pause)

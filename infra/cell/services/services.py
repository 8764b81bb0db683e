"""The services of main's runner, as `services.yaml` declares them: for each a thread that starts it, keeps what it
prints, and starts it again when it ended. They end with the runner; the next one starts them again. And the end of
everything else below the runner that a run leaves behind."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from typing import Annotated

import msgspec
import psutil
from msgspec import Meta

from infra.cell.tools.command import follow, outputs_of
from infra.shared.paths import SERVICES
from infra.shared.redacted_file import RedactedStream
from infra.shared.safe_files import whole_file
from infra.shared.subreaper import our_children

POLITE_SECONDS, END_SECONDS = 0.5, 5.0
NICE, OOM_SCORE = 10, 1000
"""Under pressure the kernel takes a service first (proc(5), oom_score_adj)."""
MOST_PAUSE_SECONDS = 300
"""Before each further start twice the pause of the last, from one second on."""
SETTLED_SECONDS = 60.0
"""A service that has run so long begins with the first pause again."""
LOGS = "logs/services"
MOST_FILE_BYTES = 64 * 1024
BYTES_PER_SECOND = 1 << 15
"""What prints faster waits for its log: it takes no time of the runner, and the watcher's limit on logs is far."""

EXAMPLE = "{name: web, command: [python, -m, http.server, 8000], directory: src/web}"
_Word = Annotated[str, Meta(pattern=r"\A[^\0]+\Z")]


class Service(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(pattern=r"\A[a-z0-9][a-z0-9_-]{0,39}\Z")]
    command: Annotated[tuple[_Word, ...], Meta(min_length=1, max_length=100)]
    directory: _Word = "."
    """From the top of the checkout."""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    services: Annotated[tuple[Service, ...], Meta(max_length=8)] | None = ()


def declared(directory: str) -> tuple[Service, ...]:
    """What the file there declares; nothing when there is none. Raises ValueError."""
    from infra.shared.yaml_words import words_of  # here, because few agents have such a file

    path = os.path.join(directory, SERVICES)
    if not os.path.lexists(path):
        return ()
    try:
        raw = words_of(whole_file(path, MOST_FILE_BYTES).decode())
        services = msgspec.convert({} if raw is None else raw, _File).services or ()
    except msgspec.ValidationError as error:
        raise ValueError(f"{SERVICES}: {error}; expected 'services', a list of entries such as {EXAMPLE}") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{SERVICES} cannot be read: {' '.join(str(error).split())[:300]}") from None
    if len({service.name for service in services}) < len(services):
        raise ValueError(f"{SERVICES}: a name comes twice; each service needs one of its own")
    return services


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
        self.problem, services = "", tuple[Service, ...]()
        try:
            services = declared(declared_in)
        except ValueError as error:
            self.problem = str(error)
        self._checkout, self._environment, self._log, self._show = checkout, environment, log, show
        self._words: dict[str, str] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.RLock()
        self._closing = threading.Event()
        self._threads = [threading.Thread(target=self._keep, args=(each,), daemon=True) for each in services]

    def start(self) -> None:
        if self.problem:
            self._show(self.problem)
        for thread in self._threads:
            thread.start()

    def words(self) -> str:
        """How they are; empty for none."""
        with self._lock:
            return "; ".join(filter(None, (self.problem, *self._words.values())))

    def pids(self) -> frozenset[int]:
        with self._lock:
            return frozenset(each.pid for each in self._processes.values())

    def close(self) -> None:
        """End them all."""
        self._closing.set()
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in self.pids():
                signal_tree(pid, number)
            until = time.monotonic() + POLITE_SECONDS
            for thread in filter(threading.Thread.is_alive, self._threads):
                thread.join(max(0.0, until - time.monotonic()))

    def _keep(self, service: Service) -> None:
        pause = 1
        while not self._closing.is_set():
            began = time.monotonic()
            try:
                why = self._run(service)
            except Exception as error:  # nothing of what is started ends a runner
                why = f"it cannot be started: {error}"
            pause = 1 if time.monotonic() - began >= SETTLED_SECONDS else pause
            self._log("service.ended", service=service.name, why=why, next_start_in=pause)
            self._tell(service, f"ended, {why}")
            self._closing.wait(pause)
            pause = min(2 * pause, MOST_PAUSE_SECONDS)

    def _run(self, service: Service) -> str:
        """From its start to its end; gives how it ended."""
        os.makedirs(os.path.join(self._checkout, LOGS), exist_ok=True)
        with open(os.path.join(self._checkout, f"{LOGS}/{service.name}.log"), "ab", buffering=0) as file:
            stream = RedactedStream(file.write, file.fileno())

            def take(piece: bytes) -> None:
                stream.write(piece.decode(errors="replace"))
                self._closing.wait(len(piece) / BYTES_PER_SECOND)

            with self._lock:  # so that whoever asks for the pids hears of every process that there is
                if self._closing.is_set():
                    return "the runner ends"
                process = self._processes[service.name] = self._started(service)
            outputs = outputs_of(process, 0, take)
            try:
                self._tell(service, "running")
                follow(process.pid, outputs, math.inf)
            finally:
                signal_tree(process.pid, signal.SIGKILL)
                outputs[0].read()
                stream.end()
                with process, self._lock:
                    del self._processes[service.name]
        return f"exit status {process.returncode}" if process.returncode >= 0 else f"signal {-process.returncode}"

    def _started(self, service: Service) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            service.command,
            cwd=os.path.join(self._checkout, service.directory),
            env=dict(self._environment()),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
            with open(f"/proc/{process.pid}/oom_score_adj", "w", encoding="ascii") as file:
                file.write(str(OOM_SCORE))
        return process

    def _tell(self, service: Service, how: str) -> None:
        with self._lock:
            self._words[service.name] = f"{service.name} {how}"
            self._show(self.words())


def end_all_but(kept: Callable[[], frozenset[int]]) -> list[str]:
    """End every descendant but `kept` and theirs; gives what was ended. What starts faster than it is looked at, or
    does not end in time, is left to the watcher."""
    ended: dict[psutil.Process, str] = {}
    for number, seconds in ((signal.SIGTERM, POLITE_SECONDS), (signal.SIGKILL, END_SECONDS)):
        strays = _strays(kept)
        for stray in strays:
            with contextlib.suppress(psutil.Error):
                ended.setdefault(stray, f"{stray.pid} {stray.name()}")
                stray.send_signal(number)
        psutil.wait_procs(strays, timeout=seconds)
        reap(kept)
    return list(ended.values())


def _strays(kept: Callable[[], frozenset[int]]) -> list[psutil.Process]:
    found = []
    below = psutil.Process().children(recursive=True)  # a parent comes before its children
    known = set(kept())  # behind it: what is started meanwhile is not among them
    for process in below:
        with contextlib.suppress(psutil.Error):
            if process.pid in known or process.ppid() in known:
                known.add(process.pid)
            elif process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def reap(kept: Callable[[], frozenset[int]]) -> None:
    """Zombies that nobody else waits for, so that they do not gather during a long run: git leaves some."""
    for pid in set(our_children()) - kept():  # in this order: what is started meanwhile is not among them
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def signal_tree(pid: int, number: signal.Signals) -> None:
    """A service's session, and what left it."""
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)

"""The doors as processes: started with the watcher, started again when they die, ended with it."""

from __future__ import annotations

import math
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import structlog

from infra.keep import arguments
from infra.keep.programs import keep_command, keep_environment
from infra.keep.services import health_checks, processes
from infra.keep.services.activation import Listening, Place
from infra.keep.services.backoff import HEALTHY_SECONDS, delay_seconds
from infra.keep.services.children import begin_aside, dies_with_us, in_memory
from infra.keep.services.elapsed import Elapsed
from infra.keep.services.health_checks import HealthCheck, HealthQuestion
from infra.keep.services.outputs import Outputs
from infra.keep.settings_file import settings_of_web_door
from infra.shared.identity import OURS, Identity
from infra.shared.paths import Paths
from infra.shared.safe_files import OLDER

OPEN_SECONDS = 30.0
"""A door opens in about a second; on a machine that is all but standing still it has this long, also for an answer."""
PATIENCE_SECONDS = 4.0
"""A door that does not answer for so long, though it has time to run, is mute."""
STOPPED_SECONDS = 1.0
"""A door that is stopped by SIGSTOP for so long is mute as well."""
UNEASY_SECONDS = 3.0
"""What dies while a door does not answer for so long may have died of that."""

LEAST_BYTES = 4 << 20
"""With less space than this, what a runner cannot write is not its fault."""
LEAST_FILES = 20
SETTLING_SECONDS = 5.0
"""What died in the first moments of a service that had died may have died of that."""


@dataclass
class Service:
    """One door and its luck so far. `due` is the monotonic time of the next start while it is down."""

    name: str
    command: list[str]
    socket: str = ""
    """Where it can be reached, if that is a file."""
    port: int = 0
    """On loopback, if that is where it can be reached: nothing is launched that could not reach it."""
    question: HealthQuestion | None = None
    """What it is asked at its socket or port, to see that it answers."""
    output: str = "doors.log"
    """Where in the keep's state its words go."""
    input: Callable[[], bytes] | None = None
    """What it reads on its stdin. Raises OSError."""
    trace: str = ""
    """A file that takes its stdout instead of `output`. One that it has no longer costs it its life: nobody would read
    what it records."""
    trace_held: tuple[int, int] | None = None
    """Device and inode of the file that it has."""
    listening: Listening | None = None
    """On demand: it is started when somebody waits there, and no runner depends on it."""
    is_idle: bool = False
    """It is down, and nobody waits."""
    env: dict[str, str] = field(default_factory=lambda: keep_environment())
    identity: Identity = OURS
    check: HealthCheck | None = None
    stopped: Elapsed = field(default_factory=Elapsed)
    is_shut: bool = False
    """It was asked to end because nobody could reach it any more."""
    uneasy: float = -math.inf
    """Monotonic: when it was last found not to have answered for some time."""
    is_replaced: bool = False
    """It was mute, and another is to come at once: who made it so has no say in how long it is down."""
    process: subprocess.Popen[bytes] | None = None
    pidfd: int = -1
    started: float = 0.0
    deaths: int = 0
    due: float = 0.0
    seed: str = field(default="8000")


def doors(settings_path: str, places: Paths, web: Identity = OURS, package_port: int = 0) -> list[Service]:
    """What every agent has: git door, model door, and the web door, which runs as `web`, is started when somebody waits
    for it, and also answers pip, uv and npm at `package_port` if that is given."""
    given = arguments.words(settings_path, places)
    waited_at: dict[str, Place] = {"web": places.web_socket}
    if package_port:
        waited_at["packages"] = ("127.0.0.1", package_port)
    return [
        Service(
            "git_door",
            keep_command("infra.git_door", *given),
            places.git_socket,
            question=health_checks.OF_DOOR,
        ),
        Service(
            "model_door",
            keep_command("infra.model_door", *given),
            places.model_socket,
            question=health_checks.OF_DOOR,
        ),
        Service(
            "web_door",
            keep_command("infra.web_door", *given),
            places.web_socket,
            question=health_checks.OF_DOOR,
            input=partial(settings_of_web_door, settings_path),
            trace=places.web_trace,
            listening=Listening(waited_at),
            identity=web,
        ),
    ]


def begin(service: Service, var: str, rotate_over: float = math.inf) -> int:
    """Start its process; gives the pid. Raises OSError, and then there is none."""
    _begin_anew(service.trace, rotate_over)
    held = service.listening
    env = service.env | held.variable() if held else service.env
    with (
        open(f"{var}/{service.output}", "ab") as output,
        open(service.trace or os.devnull, "ab") as trace,
        in_memory(service.input() if service.input else b"") as given,
    ):
        process = begin_aside(
            service.command,
            env,
            service.identity,
            stdin=given.fileno(),
            stdout=trace if service.trace else output,
            stderr=output,
            pass_fds=held.fds() if held else (),
        )
        service.trace_held = _inode(os.fstat(trace.fileno()))
    try:
        service.pidfd = os.pidfd_open(process.pid)
    except OSError:  # it runs, but we could not follow it: it must not keep its socket from the next
        process.kill()
        process.wait()
        raise
    service.process = process
    return process.pid


def _begin_anew(trace: str, rotate_over: float) -> None:
    """A long record is moved away while nobody writes it: no line is lost."""
    if os.path.exists(trace) and os.stat(trace).st_size > rotate_over:
        os.replace(trace, trace + OLDER)


def _has_trace(service: Service) -> bool:
    try:
        return _inode(os.stat(service.trace)) == service.trace_held
    except OSError:
        return False


def _inode(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


class Services:
    """The doors of one agent, and what else the keep runs for it."""

    def __init__(self, all_of_them: list[Service], places: Paths, rotate_over: int, log: structlog.stdlib.BoundLogger):
        self._all = all_of_them
        self._log = log
        self._var = places.var
        self._told: list[str] = []
        self._rotate_over = rotate_over
        self._outputs = Outputs([f"{places.var}/{service.output}" for service in all_of_them], rotate_over, log)

    def end_orphans(self) -> list[str]:
        """End the doors of an earlier watcher that was killed before they were bound to it: they hold the sockets."""
        bare = [service.command for service in self._all]
        return processes.end_commands([*bare, *(dies_with_us(command) for command in bare)])

    def tend(self, now: float) -> None:
        """Notice deaths, start what is due. A door that cannot be started is tried again later, for ever."""
        self._outputs.bound()
        for service in self._all:
            if service.process and service.process.poll() is not None:
                self._bury(service, f"exit {service.process.returncode}", now)
            if service.process and service.trace and not service.is_replaced and not _has_trace(service):
                self._replace(service, service.process, f"lost its record ({service.trace} was moved or removed)")
            if service.process and service.check:
                self._ask(service, service.process, service.check, now)
            if service.process is None and now >= service.due and self._is_wanted(service, now):
                self._start(service, now)

    def _is_wanted(self, service: Service, now: float) -> bool:
        if service.listening is None:
            return True
        try:
            service.listening.open()
        except OSError as error:
            service.started, service.is_idle = now, False  # until it is due, nobody who waits is looked at
            self._bury(service, str(error), now)
            return False
        service.is_idle = not service.listening.is_waited_at()
        return not service.is_idle

    def news(self) -> list[str]:
        """What was replaced since the last call, in words for the PM."""
        told, self._told = self._told, []
        return told

    def _ask(self, service: Service, process: subprocess.Popen[bytes], check: HealthCheck, now: float) -> None:
        """A door that nobody can reach, or that does not answer, is replaced: its callers wait for that alone."""
        silent = check.look(now)
        stopped = service.stopped.looks(now, silent > 0.0 and processes.is_stopped(process.pid))
        if silent > UNEASY_SECONDS or stopped > 0.0:
            service.uneasy = now
        if check.is_gone and check.answered and not service.is_shut:  # somebody removed its socket
            service.is_shut = True
            self._log.error("door.socket_gone", door=service.name, socket=service.socket)
            process.terminate()
        if stopped > STOPPED_SECONDS:
            self._replace(service, process, "was stopped (SIGSTOP)")
        elif silent > OPEN_SECONDS or (
            check.answered and silent > PATIENCE_SECONDS and not health_checks.is_busy(process.pid)
        ):
            self._replace(service, process, f"did not answer for {silent:.0f} s")

    def _replace(self, service: Service, process: subprocess.Popen[bytes], why: str) -> None:
        service.is_replaced = True
        self._log.error("door.mute", door=service.name, pid=process.pid, why=why)
        self._told.append(f"The {service.name} (process {process.pid}) {why}, and is replaced.")
        self._stop_asking(service)
        process.kill()  # its end is noticed like any other; a process in the kernel's hands (D state) may take a while

    def _stop_asking(self, service: Service) -> None:
        if service.check:
            service.check.close()
        service.check = None

    def trouble(self, now: float, since: float) -> str:
        """A service that is down, or that was down or did not answer at some time after `since`; empty for none."""
        since = min(since, now - SETTLING_SECONDS)
        for service in self._all:
            if service.listening:
                continue
            if service.process is None:
                return f"{service.name} is down"
            if service.deaths and service.started > since:
                return f"{service.name} has just come back"
            if service.uneasy > since:
                return f"{service.name} did not answer"
        return ""

    def pids(self) -> frozenset[int]:
        return frozenset(service.process.pid for service in self._all if service.process)

    def pidfds(self) -> list[int]:
        """To poll: for a death, and for somebody who waits."""
        waited_at = (
            fd for service in self._all if service.is_idle and service.listening for fd in service.listening.fds()
        )
        return [*(service.pidfd for service in self._all if service.process), *waited_at]

    def fds(self) -> list[int]:
        """Where answers come, to poll for reading."""
        return [fd for service in self._all if service.check for fd in service.check.fds()]

    def next_due(self) -> float | None:
        """When time alone has something to tell."""
        down = [service.due for service in self._all if service.process is None and not service.is_idle]
        return min([*down, *(service.check.due() for service in self._all if service.check)], default=None)

    def await_ports(self, seconds: float) -> None:
        """Wait until each service that has a port has answered there from now on. Raises OSError when one does not in
        time: git would wait for it much longer."""
        deadline = time.monotonic() + seconds
        awaited = [service for service in self._all if service.port and service.question]
        for service in awaited:
            if service.check:
                service.check.ask_anew()
        while silent := [each for each in awaited if not (each.check and each.check.answered_anew)]:
            if time.monotonic() > deadline:
                raise OSError(f"{silent[0].name} does not answer on port {silent[0].port}")
            poll = select.poll()
            for descriptor in self.fds():
                poll.register(descriptor, select.POLLIN)
            poll.poll(20)
            self.tend(time.monotonic())

    def end(self, grace_seconds: float) -> None:
        """Ask all doors to end, then make them."""
        running = [service.process for service in self._all if service.process]
        for process in running:
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + grace_seconds
        for process in running:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for service in self._all:
            self._stop_asking(service)
            if service.listening:
                service.listening.close()

    def _start(self, service: Service, now: float) -> None:
        service.started, service.is_shut, service.stopped, service.is_idle = now, False, Elapsed(), False
        try:
            pid = begin(service, self._var, self._rotate_over)
        except OSError as error:
            self._bury(service, str(error), now)
            return
        if service.question:
            address = service.socket or ("127.0.0.1", service.port)
            service.check = HealthCheck(address, service.question)
        self._log.info("door.started", door=service.name, pid=pid)

    def _bury(self, service: Service, how: str, now: float) -> None:
        if service.pidfd >= 0:
            os.close(service.pidfd)
        is_first = service.is_replaced or now - service.started >= HEALTHY_SECONDS
        service.deaths, service.is_replaced = (1 if is_first else service.deaths + 1), False
        self._stop_asking(service)
        service.process, service.pidfd = None, -1
        service.due = now + delay_seconds(service.deaths, service.seed)
        self._log.warning("door.died", door=service.name, how=how, deaths=service.deaths)


def outage(services: Services, places: Paths, now: float, since: float) -> str:
    """Why a death now says nothing about who died: what every runner depends on is not there, or was not at some time
    after `since`. Empty when all is."""
    why = services.trouble(now, since)
    for path in (places.bot, places.var):
        try:
            room = os.statvfs(path)
            if room.f_bavail * room.f_frsize < LEAST_BYTES:
                why = why or f"{path} is full"
        except OSError as error:
            why = why or f"{path}: {error.strerror}"
            continue
        if room.f_files and room.f_favail < LEAST_FILES:
            why = why or f"{path} takes no more files"
    return why

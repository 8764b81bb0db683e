"""The doors as processes: started with the watcher, started again when they die or fall silent, ended with it."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from socket import create_connection, create_server
from socket import socket as Socket

import structlog

from infra.keep import arguments, sockets
from infra.keep.cut_logs import OLDER
from infra.keep.programs import keep_command, keep_environment
from infra.keep.services.children import KEEPS, begin_aside, in_memory, pidfd_of
from infra.keep.services.hearts import Heartbeat, overdue
from infra.keep.settings.check import settings_of_web_door, variables
from infra.shared.identity import OURS, Identity
from infra.shared.paths import PICTURE_VARIABLE, Paths

OPEN_SECONDS = 30.0
"""A door opens in about a second; on a machine that is all but standing still it has this long."""
UNEASY_SECONDS = 6.0
"""A door beats every three. What dies while one was not heard of for so long may have died of that."""
SETTLING_SECONDS = 5.0
"""What died in the first moments of a door that had died may have died of that."""
HEALTHY_SECONDS = 600.0
"""A door that lived so long has earned a fresh count."""
LONGEST_DELAY_SECONDS = 60.0
LEAST_BYTES = 4 << 20
"""With less space than this, what a runner cannot write is not its fault."""
LEAST_FILES = 20


@dataclass
class Service:
    """One program that the keep runs for the agent, and its luck so far."""

    name: str
    command: list[str]
    socket: str = ""
    """Where it can be reached, if that is a file; without it, it is started anew."""
    port: int = 0
    """On loopback, if that is where it can be reached: nothing is launched before."""
    beats: bool = False
    """It has a heart (`shared.heart`)."""
    held: Mapping[str, str | tuple[str, int]] = field(default_factory=dict)
    """Sockets that the watcher holds for it, by the names that it knows: a path, or host and port. It is started when
    somebody waits there, and no runner depends on it."""
    output: str = "doors.log"
    """Where in the keep's state its words go."""
    input: Callable[[], bytes] | None = None
    """What it reads on its stdin. Raises OSError."""
    trace: str = ""
    """A file that takes its stdout instead of `output`."""
    picture: str = ""
    """A file that it may write over, empty at its start: the descriptor stands in its environment."""
    env: dict[str, str] = field(default_factory=lambda: keep_environment() | variables(os.environ))
    identity: Identity = OURS
    listening: dict[str, Socket] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    pidfd: int = -1
    heart: Heartbeat | None = None
    """None as well for one that was killed and has not ended yet."""
    started: float = 0.0
    deaths: int = 0
    due: float = 0.0
    """While it is down: when it is started again; 0 while nobody waits for it."""


def doors(settings_path: str, places: Paths, web: Identity = OURS, package_port: int = 0) -> list[Service]:
    """What every agent has: git door, model door, and the web door, which runs as `web`, is started when somebody waits
    for it (36 MiB and 0.4 s of a processor), and also answers pip, uv and npm at `package_port` if that is given."""
    given = arguments.words(settings_path, places)
    held: dict[str, str | tuple[str, int]] = {"web": places.web_socket}
    if package_port:
        held["packages"] = ("127.0.0.1", package_port)
    return [
        Service("git_door", keep_command("infra.git_door", *given), places.git_socket, beats=True),
        Service("model_door", keep_command("infra.model_door", *given), places.model_socket, beats=True),
        Service(
            "web_door",
            keep_command("infra.web_door", *given),
            beats=True,
            held=held,
            input=partial(settings_of_web_door, settings_path),
            trace=places.web_trace,
            picture=places.picture,
            identity=web,
        ),
    ]


def begin(service: Service, var: str, now: float, rotate_over: int = 1 << 40) -> None:
    """Start its process. Raises OSError, and then there is none."""
    if os.path.exists(service.trace) and os.stat(service.trace).st_size > rotate_over:
        os.replace(service.trace, service.trace + OLDER)  # while nobody writes it: no line is lost
    env, fds = service.env | {KEEPS: var}, [each.fileno() for each in service.listening.values()]
    if fds:
        env[sockets.VARIABLE] = " ".join(f"{name}={each.fileno()}" for name, each in service.listening.items())
    heart = Heartbeat(now, OPEN_SECONDS)
    if service.beats:
        env |= heart.environment
        fds += heart.descriptors
    try:
        with (
            open(f"{var}/{service.output}", "ab") as output,
            open(service.trace or os.devnull, "ab") as trace,
            open(service.picture or os.devnull, "wb") as picture,
            in_memory(service.input() if service.input else b"") as given,
        ):
            stdout = trace if service.trace else output
            if service.picture:
                env[PICTURE_VARIABLE] = str(picture.fileno())
                fds.append(picture.fileno())
            process = begin_aside(service.command, env, service.identity, given.fileno(), stdout, output, tuple(fds))
        service.pidfd = pidfd_of(process)
    except OSError:
        heart.close()
        raise
    heart.started()
    service.process, service.heart = process, heart if service.beats else None


class Services:
    """The doors of one agent, and what else the keep runs for it. Moments are on the watcher's clock."""

    def __init__(self, all_of_them: list[Service], places: Paths, rotate_over: int, log: structlog.stdlib.BoundLogger):
        self._all = all_of_them
        self._var = places.var
        self._rotate_over = rotate_over
        self._log = log
        self._told: list[str] = []

    def tend(self, now: float) -> None:
        """Notice deaths and silence, start what is due. What cannot be started is tried again later, for ever."""
        for path in {f"{self._var}/{service.output}" for service in self._all}:
            with contextlib.suppress(OSError):
                _bound(path, self._rotate_over)
        for service in self._all:
            process = service.process
            if process and process.poll() is not None:
                self._bury(service, f"exit {process.returncode}", now)
            elif process and service.heart and (why := _trouble(service, service.heart, now)):
                self._log.error("door.mute", door=service.name, pid=process.pid, why=why)
                self._told.append(f"The {service.name} (process {process.pid}) is replaced: {why}.")
                process.kill()  # its end is noticed like any other; in the kernel's hands (D state) it may take a while
                service.heart.close()
                service.heart, service.deaths = None, 0  # who silenced it is not to keep it down
            if service.process is None and now >= service.due:
                self._start(service, now)

    def _start(self, service: Service, now: float) -> None:
        try:
            _hold(service)
            if service.held and not _is_waited_at(service):
                service.due = 0.0
                return
            service.started = now
            begin(service, self._var, now, self._rotate_over)
        except (OSError, sockets.SocketTaken, ValueError) as error:
            self._bury(service, str(error), now)
            return
        self._log.info("door.started", door=service.name)

    def _bury(self, service: Service, how: str, now: float) -> None:
        _let_go(service)
        service.deaths = 1 if now - service.started >= HEALTHY_SECONDS else service.deaths + 1
        delay = min(2.0 ** min(service.deaths - 2, 6), LONGEST_DELAY_SECONDS) if service.deaths > 1 else 0.0
        service.due = now + delay
        self._log.warning("door.died", door=service.name, how=how, deaths=service.deaths)

    def news(self) -> list[str]:
        """What was replaced since the last call, in words for the PM."""
        told, self._told = self._told, []
        return told

    def trouble(self, now: float, since: float) -> str:
        """What is down or silent, or has come back at some time after `since`; empty for nothing."""
        since = min(since, now - SETTLING_SECONDS)
        for service in self._all:
            if service.held:
                continue
            if service.process is None:
                return f"{service.name} is down"
            if service.deaths and service.started > since:
                return f"{service.name} has just come back"
            if service.heart and now - service.heart.listen(now).at > UNEASY_SECONDS:
                return f"{service.name} is silent"
        return ""

    def pids(self) -> frozenset[int]:
        return frozenset(service.process.pid for service in self._all if service.process)

    def pidfds(self) -> list[int]:
        """To poll: for a death, and for somebody who waits."""
        idle = (each for each in self._all if each.process is None and not each.due)
        waited_at = (each.fileno() for service in idle for each in service.listening.values())
        return [*(service.pidfd for service in self._all if service.process), *waited_at]

    def next_due(self) -> float | None:
        """When time alone has something to tell."""
        return min((each.due for each in self._all if each.process is None and each.due), default=None)

    def await_ports(self, seconds: float) -> None:
        """Wait until somebody listens at each port. Raises OSError when nobody does in time: git would wait for it much
        longer."""
        deadline = time.monotonic() + seconds
        for port in filter(None, (service.port for service in self._all)):
            while True:
                try:
                    create_connection(("127.0.0.1", port), 1.0).close()
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        raise
                time.sleep(0.02)

    def end(self, grace_seconds: float) -> None:
        """Ask all to end, then make them."""
        running = [service.process for service in self._all if service.process]
        for process in running:
            process.terminate()
        deadline = time.monotonic() + grace_seconds
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            process.kill()
            process.wait()
        for service in self._all:
            _let_go(service)
            for each in service.listening.values():
                each.close()
            service.listening.clear()


def _bound(path: str, most: int) -> None:
    """Many words are moved to `.1`, by a copy, because the doors hold the file open. Raises OSError."""
    if os.stat(path).st_size > most:
        try:
            shutil.copyfile(path, path + OLDER)
        finally:  # without space for the copy the bound counts for more than old words
            os.truncate(path, 0)


def _trouble(service: Service, heart: Heartbeat, now: float) -> str:
    """Why its process is of no use any more; empty while it is."""
    late, is_open = overdue(heart.listen(now), now), heart.last.at > service.started
    return late or (f"its socket {service.socket} was removed" if is_open and _is_gone(service.socket) else "")


def _is_gone(path: str) -> bool:
    return bool(path) and not os.path.lexists(path)


def _let_go(service: Service) -> None:
    if service.pidfd >= 0:
        os.close(service.pidfd)
    if service.heart:
        service.heart.close()
    service.process, service.pidfd, service.heart = None, -1, None


def _hold(service: Service) -> None:
    """Listen for it where nobody does, also where somebody removed the socket. Raises OSError, ValueError and
    SocketTaken."""
    for name, place in service.held.items():
        if name in service.listening and isinstance(place, str) and _is_gone(place):
            service.listening.pop(name).close()
        if name not in service.listening:
            service.listening[name] = sockets.listen(place) if isinstance(place, str) else create_server(place)


def _is_waited_at(service: Service) -> bool:
    return bool(select.select(service.listening.values(), (), (), 0)[0])


def outage(services: Services, places: Paths, now: float, since: float) -> str:
    """Why a death now says nothing about who died: what every runner depends on is not there, or was not at some time
    after `since`. Empty when all is."""
    why = services.trouble(now, since)
    for path in (places.bot, places.var):
        try:
            room = os.statvfs(path)
        except OSError as error:
            return why or f"{path}: {error.strerror}"
        is_full = room.f_bavail * room.f_frsize < LEAST_BYTES or (room.f_files and room.f_favail < LEAST_FILES)
        why = why or (f"{path} is full" if is_full else "")
    return why

"""The container of one agent: made, started, looked at, ended. It is made anew at each start and goes away with `down`.

What is left over of this agent's is removed first, so that `up` can always be run again; what is not this agent's is
never touched."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from host.container.machine import Machine
from host.container.machine import look as look_at_machine
from host.container.podman import Podman, PodmanError, environment
from host.container.words import CELL_UID, HOME, container_name, eye_name, shared_directory
from host.errors import conflict, try_again
from host.home import AgentPaths, Context
from host.screen import Say
from infra.shared.exit_codes import Exit
from infra.shared.files import write_whole

LOG_LINES = 40
KILLED = 128 + signal.SIGKILL
OVER = frozenset(["created", "configured", "initialized", "exited", "stopped", "dead", "removing"])
"""Statuses of a container in which nothing of it runs."""


class ContainerState(NamedTuple):
    """A container as podman tells of it."""

    status: str
    pid: int
    """On the host; 0 when it does not run."""
    exit_code: int
    image: str

    @property
    def runs(self) -> bool:
        return self.status not in OVER


class FirstProcess(NamedTuple):
    """Of a container that was just started: watched without asking podman again and again."""

    podman: Podman
    home: AgentPaths
    pid: int

    def poll(self) -> int | None:
        """How it ended; None while it has not."""
        if self.pid and os.path.exists(f"/proc/{self.pid}"):
            return None
        found = look(self.podman, self.home)  # which learns of the end a moment later
        return None if found and found.runs else found.exit_code if found else int(Exit.FAILURE)


def podman_of(context: Context, seen: Machine | None = None) -> Podman:
    """For a container that may be there already; `seen` is this machine where the command has looked at it."""
    machine = seen or look_at_machine(context.environ, context.uid)
    return Podman(machine.podman or "podman", environment(context.environ), machine.words)


def look(podman: Podman, home: AgentPaths, name: str = "") -> ContainerState | None:
    """The agent's container, or its other one of this name; None when there is none. Raises CommandError when the name
    is taken by another's."""
    name = name or container_name(home.agent)
    try:
        found = podman.json("container", "inspect", name)[0]
    except PodmanError as error:
        if "no such container" in error.said or "no container with name" in error.said:
            return None
        raise
    state, labels = found["State"], found["Config"].get("Labels") or {}
    if labels.get(HOME) != home.data:
        raise conflict(
            f"the container name {name} is taken by {labels.get(HOME, 'something that minifram did not make')}; give "
            f"this agent another name, or remove that container yourself: podman rm {name}"
        )
    return ContainerState(state["Status"], state.get("Pid", 0), state.get("ExitCode", 0), found["ImageName"])


def make_way(podman: Podman, home: AgentPaths) -> None:
    """An earlier container of this agent is removed, and its browser's. Raises CommandError when it runs."""
    left = look(podman, home)
    if left and left.runs:
        raise conflict(
            f"the container {container_name(home.agent)} is running though no watcher holds its lock (yet); wait a "
            "moment, or end it with 'minifram down'"
        )
    if left:
        remove(podman, home)
    else:  # the browser's may be there all the same
        remove_browser(podman, home)


def start(podman: Podman, machine: Machine, home: AgentPaths, words: Sequence[str]) -> FirstProcess:
    """Make the container with these words (`create_words`) and start it. Raises CommandError."""
    _prepare_repository(home)
    _give_tree(podman, machine, home)
    podman(*words)
    write_whole(home.watcher_output, b"", mode=0o600)
    podman("start", container_name(home.agent))
    found = look(podman, home)
    return FirstProcess(podman, home, found.pid if found else 0)


def stop(podman: Podman, home: AgentPaths, running: ContainerState, seconds: float, say: Say) -> None:
    """Ask the container to end, wait, end it at the deadline. Raises PodmanError."""
    say(f"asked the container (pid {running.pid}) to end; it has {seconds:g} s")
    # podman waits in full seconds.
    podman("stop", f"--time={max(1, round(seconds))}", container_name(home.agent), seconds=seconds + 60)
    after = look(podman, home)
    if after and after.exit_code == KILLED:
        say(f"it had not ended after {seconds:g} s and was killed; nothing that was pushed is lost")


def remove(podman: Podman, home: AgentPaths) -> None:
    """With its browser's. What it wrote to its streams is kept, for `last_words` and the PM. Raises CommandError."""
    name = container_name(home.agent)
    with contextlib.suppress(PodmanError, OSError):  # of a full disk, say
        said = podman("logs", f"--tail={LOG_LINES}", name, merged=True)
        write_whole(home.watcher_output, said.encode(), mode=0o600)
    podman("rm", "--force", "--time=0", "--ignore", name)
    remove_browser(podman, home)


def remove_browser(podman: Podman, home: AgentPaths) -> None:
    """Raises CommandError."""
    if look(podman, home, eye_name(home.agent)):
        podman("rm", "--force", "--time=0", "--ignore", eye_name(home.agent))
    place = shared_directory(home)
    if os.path.lexists(place):
        os.chmod(place, 0o700)
        shutil.rmtree(place)


@contextlib.contextmanager
def alone(home: AgentPaths) -> Iterator[None]:
    """Hold the lock on changes to the agent's container. Raises CommandError when another command holds it."""
    path = f"{home.data}/container.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise try_again(f"another minifram command works on the container of {home.agent!r}; try again") from None
        yield
    finally:
        os.close(descriptor)


def _prepare_repository(home: AgentPaths) -> None:
    """What is bound of the repository is there, also what git makes only when it needs it."""
    # Without packed-refs, refs that `git pack-refs` moved there would be missing inside.
    with open(f"{home.remote}/packed-refs", "ab"):
        os.makedirs(f"{home.remote}/objects/info", exist_ok=True)


def check_tree(machine: Machine, home: AgentPaths) -> None:
    """The cell's tree belongs to its own user; before its first start it is empty. Raises CommandError."""
    bot = home.places.bot
    if os.path.lexists(bot) and os.lstat(bot).st_uid != machine.host_uid(CELL_UID) and os.listdir(bot):
        raise conflict(
            f"the files in {bot} do not belong to the user of the container: the agent lived in the process sandbox. "
            f"To give them over: podman unshare chown -R {CELL_UID}:{CELL_UID} {bot}"
        )


def _give_tree(podman: Podman, machine: Machine, home: AgentPaths) -> None:
    check_tree(machine, home)
    os.makedirs(home.places.events, mode=0o755, exist_ok=True)
    if os.lstat(home.places.bot).st_uid != machine.host_uid(CELL_UID):
        podman("unshare", "sh", "-c", f'chmod 755 "$0" && chown {CELL_UID}:{CELL_UID} "$0"', home.places.bot)

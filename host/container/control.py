"""The container of one agent: made, started, looked at, ended. Everything of it but the agent's directories on the
host is made again each time and goes away with `down`, the key with it.

What is half made or left over is removed first, so that `up` can always be run again; what is not this agent's is
never touched."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import stat
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from host.container.cell_tree import give_tree
from host.container.inspection import ContainerState, differences, state_of
from host.container.machine import Machine
from host.container.podman import Podman, PodmanError
from host.container.words import (
    AGENT,
    CELL_UID,
    HOME,
    Sealing,
    Volume,
    create_words,
    names,
    secret_name,
    secret_words,
    volume_options,
    volume_words,
)
from host.display import Say
from host.errors import CommandError
from host.paths import AgentPaths
from infra.shared.exit_codes import Exit
from infra.shared.providers import KEYS

LOG_LINES = 40
KILLED = 128 + signal.SIGKILL


def look(podman: Podman, home: AgentPaths, name: str = "") -> ContainerState | None:
    """The agent's container, or its other one of this `name`; None when there is none. Raises CommandError when
    the name is taken by another's."""
    name = name or names(home.agent).container
    shown = _inspected(podman, name)
    if shown is None:
        return None
    found = state_of(shown)
    if found.agent != home.agent or found.home != home.data:
        whose = f"the agent at {found.home}" if found.home else "something that minifram did not make"
        raise CommandError(
            Exit.CONFLICT,
            f"the container name {name} is taken by {whose}; give this agent another name, or remove that container "
            f"yourself: podman rm {name}",
        )
    return found


def make(
    podman: Podman, machine: Machine, home: AgentPaths, sealed: Sealing, keys: Mapping[str, str]
) -> ContainerState:
    """Make secrets, volumes and container, all but started; an earlier container of this agent is removed.

    A key of the sealing that `keys` lacks is left to the secret that is there. Raises CommandError."""
    left = look(podman, home)
    if left and left.runs:
        raise CommandError(
            Exit.CONFLICT,
            f"the container {sealed.name} is running though no watcher holds its lock (yet); wait a moment, or end it "
            "with 'minifram down'",
        )
    if left:
        remove(podman, home)
    _prepare_repository(home, machine.uid)
    give_tree(podman, home, CELL_UID, machine.host_uid(CELL_UID))
    for volume in sealed.volumes:
        _make_volume(podman, volume, home)
    for name, key in keys.items():
        _make_secret(podman, home, name, key)
    return _create(podman, home, sealed)


def start(podman: Podman, home: AgentPaths) -> None:
    """Let its first process begin. Raises PodmanError."""
    podman("start", names(home.agent).container)


def prepare(podman: Podman, name: str) -> ContainerState:
    """Have podman settle what the runtime will do: the container's first process is there, and waits for `start`.

    Raises PodmanError."""
    podman("init", name)
    return state_of(_inspected(podman, name) or {})


def stop(podman: Podman, home: AgentPaths, running: ContainerState, seconds: float, say: Say, name: str = "") -> None:
    """Ask the container to end, wait, end it at the deadline. Raises PodmanError."""
    say(f"asked the container (pid {running.pid}) to end; it has {seconds:g} s")
    name = name or names(home.agent).container
    # podman waits in full seconds.
    podman("stop", f"--time={max(1, round(seconds))}", name, seconds=seconds + 60)
    after = look(podman, home, name)
    if after and after.exit_code == KILLED:
        say(f"it had not ended after {seconds:g} s and was killed; nothing that was pushed is lost")


def output(podman: Podman, home: AgentPaths) -> str:
    """The last that the container wrote to its streams; empty when that is not known."""
    try:
        return podman.everything("logs", f"--tail={LOG_LINES}", names(home.agent).container)
    except PodmanError:
        return ""


def remove(podman: Podman, home: AgentPaths, name: str = "") -> None:
    """The container and what podman copied of the key into it. Raises PodmanError."""
    podman("rm", "--force", "--time=0", "--ignore", name or names(home.agent).container)


def remove_secrets(podman: Podman, home: AgentPaths, but: Collection[str] = ()) -> None:
    """All keys of this agent but the secrets with these names. Raises PodmanError."""
    for name in (secret_name(home.agent, key) for key in keys_held(podman, home)):
        if name not in but:
            podman("secret", "rm", name)


def keys_held(podman: Podman, home: AgentPaths) -> list[str]:
    """The names of the keys that podman holds for this agent. Raises PodmanError."""
    there = podman("secret", "ls", "--format={{.Name}}").split()
    return [key for key in KEYS if secret_name(home.agent, key) in there]


@contextlib.contextmanager
def alone(home: AgentPaths) -> Iterator[None]:
    """Hold the lock on changes to the agent's container. Raises CommandError when another command holds it."""
    path = f"{home.data}/container.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandError(
                Exit.TRY_AGAIN, f"another minifram command works on the container of {home.agent!r}; try again"
            ) from None
        yield
    finally:
        os.close(descriptor)


# --- the parts -----------------------------------------------------------------------------------


def _inspected(podman: Podman, name: str) -> dict[str, Any] | None:
    try:
        shown = podman.json("container", "inspect", name)
    except PodmanError as error:
        if "no such container" in error.said or "no container with name" in error.said:
            return None
        raise
    return dict(shown[0])


def _prepare_repository(home: AgentPaths, uid: int) -> None:
    """What is bound of the repository is there, and ours: the keep writes it with the PM's rights alone."""
    packed = f"{home.remote}/packed-refs"
    with contextlib.suppress(FileExistsError):
        # Bound too, or refs that `git pack-refs` moved there would be missing inside.
        os.close(os.open(packed, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
    with contextlib.suppress(FileExistsError, FileNotFoundError):
        os.mkdir(f"{home.remote}/objects/info")
    directories = ("objects", "objects/info", "refs")
    for name in ("HEAD", "config", "packed-refs", *directories):
        path = f"{home.remote}/{name}"
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            raise CommandError(Exit.NOT_FOUND, f"{path} is missing; put the repository back from a copy") from None
        is_right = stat.S_ISDIR(status.st_mode) if name in directories else stat.S_ISREG(status.st_mode)
        if not is_right:
            raise CommandError(Exit.DENIED, f"{path} is not a plain file or directory; see 'minifram doctor'")
        if status.st_uid != uid:
            raise CommandError(
                Exit.CONFLICT,
                f"{path} belongs to uid {status.st_uid}, not to you (uid {uid}): the container could not write the "
                f"repository. As root: chown -R {uid} {home.remote}",
            )


def _make_volume(podman: Podman, volume: Volume, home: AgentPaths) -> None:
    """A volume is only a name for a directory of the host's: one that stands for another place is replaced."""
    try:
        shown = podman.json("volume", "inspect", volume.name)[0]
    except PodmanError as error:
        if "no such volume" not in error.said:
            raise
    else:
        labels, options = shown.get("Labels") or {}, shown.get("Options") or {}
        if labels.get(AGENT) != home.agent:
            raise CommandError(
                Exit.CONFLICT,
                f"the volume name {volume.name} is taken by something that minifram did not make; rename or remove "
                f"that volume, or give this agent another name",
            )
        if labels.get(HOME) == home.data and volume_options(volume).items() <= options.items():
            return
        try:
            podman("volume", "rm", volume.name)
        except PodmanError as error:
            text = f"the volume {volume.name} stands for another directory and is in use: {error.said}"
            raise CommandError(Exit.CONFLICT, text) from None
    podman(*volume_words(volume, home.agent, home.data))


def _make_secret(podman: Podman, home: AgentPaths, key: str, value: str) -> None:
    """Over stdin: a key in an argument or a variable could be read by others."""
    name = secret_name(home.agent, key)
    if key in keys_held(podman, home):
        podman("secret", "rm", name)
    podman(*secret_words(name, home.agent), stdin=value.encode())


def _create(podman: Podman, home: AgentPaths, sealed: Sealing) -> ContainerState:
    try:
        podman(*create_words(sealed))
    except PodmanError as error:
        if "no such secret" in error.said or "no secret with name" in error.said:
            raise CommandError(
                Exit.NOT_FOUND,
                f"podman lacks one of the secrets {', '.join(secret.name for secret in sealed.secrets)}: "
                "export the key again and run 'minifram up'",
            ) from None
        if "already in use" in error.said:
            raise CommandError(Exit.CONFLICT, f"another command made {sealed.name} at this moment; try again") from None
        raise
    made = prepare(podman, sealed.name)
    if wrong := _wrong_orders(sealed, made):
        raise CommandError(
            Exit.DENIED,
            "podman made the container otherwise than it was asked to, so it is not started: "
            f"{'; '.join(wrong)}. Look into your containers.conf",
        )
    return made


def _wrong_orders(sealed: Sealing, made: ContainerState) -> list[str]:
    try:
        with open(made.orders, "rb") as file:
            orders = json.load(file)
        with open(sealed.seccomp, "rb") as file:
            profile = json.load(file)
    except (OSError, ValueError) as error:
        return [f"the runtime's orders cannot be read ({error})"]
    return differences(sealed, orders, profile)

"""The container of an agent's browser: it has no network, no right, no file of anybody's, and shares one directory with
the agent's container, in which one socket lies."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from host.container import image as agents
from host.container.machine import Machine
from host.container.podman import Podman, PodmanError
from host.container.words import HOME, MIB, bind, container_name, fences, scratch
from host.errors import failure
from host.home import AgentPaths
from host.project import files_of
from host.screen import Say
from infra.keep.settings.schema import Settings
from infra.shared.files import write_whole

RECIPE, PARENT = "Containerfile.eye", "infra/keep/eye/parent.py"
IMAGE = "localhost/minifram-eye"
USER = 970
"""`web` of the agent's image: the only one in the two containers who may use the socket."""
DIRECTORY = "/run/eye"
BYTES, BYTES_A_BROWSER, PROCESSES_A_BROWSER = 512 * MIB, 512 * MIB, 256
START_SECONDS = 10.0
OF_SANDBOX = ("clone", "unshare", "chroot")
"""What chromium's own sandbox is made with, beside what the agent may call."""


def eye_name(agent: str) -> str:
    """No name of an agent holds a dot."""
    return f"{container_name(agent)}.eye"


def profile(agents_own: Mapping[str, Any]) -> dict[str, Any]:
    """The agent's seccomp profile, with the calls that make namespaces."""
    kept = [each for each in agents_own["syscalls"] if each["names"] != ["clone"]]  # that one allows no namespaces
    return {**agents_own, "syscalls": [*kept, {"names": [*OF_SANDBOX], "action": "SCMP_ACT_ALLOW"}]}


def eye_words(home: AgentPaths, settings: Settings, machine: Machine, image: str) -> list[str]:
    """Behind `podman`, all that makes the container."""
    return [
        "create",
        f"--name={eye_name(home.agent)}",
        f"--label={HOME}={home.data}",
        *fences(_profile_of(home), "none", user=f"{USER}:{USER}", capabilities=()),
        *_limits(settings, machine),
        scratch("/tmp", 0o1777, 512 * MIB),  # noqa: S108 - the container's own
        bind(shared(home), DIRECTORY, "rw,noexec", machine),
        image,
    ]


def shared(home: AgentPaths) -> str:
    """The directory on the host: memory, as all of the runtime directory is."""
    return f"{home.run}/eye"


def _profile_of(home: AgentPaths) -> str:
    return f"{home.run}/eye.json"


def _limits(settings: Settings, machine: Machine) -> Iterator[str]:
    size = settings.web.pool_size
    for controller, word in (
        ("pids", f"--pids-limit={PROCESSES_A_BROWSER * (size + 1)}"),
        ("memory", f"--memory={BYTES + size * BYTES_A_BROWSER}"),
    ):
        if controller in machine.controllers:
            yield word
    yield f"--log-driver={machine.log_driver}"
    yield from ("--log-opt=max-size=1mb",) if machine.log_driver == "k8s-file" else ()


def find_or_build(
    podman: Podman, environ: Mapping[str, str], root: str, named: str | None, rebuild: bool, say: Say
) -> str:
    """The name of the image, as of the agent's. Raises CommandError and PodmanError."""
    base = agents.base_of(podman, environ, named, rebuild, say)
    files = [*files_of(root, RECIPE), *files_of(root, PARENT)]
    digest = hashlib.sha256(base.content.encode())
    for source in files:
        with open(source.file, "rb") as file:
            digest.update(file.read())
    image = f"{IMAGE}:{digest.hexdigest()[:12]}"
    if rebuild or agents.look(podman, image) is None:
        say(f"building the image {image}: this takes some minutes")
        agents.build(podman, environ, f"{root}/{RECIPE}", files, base, image)
    return image


def start(podman: Podman, machine: Machine, home: AgentPaths, settings: Settings, image: str, root: str) -> None:
    """Make it and start it, in place of one that is left over. Raises CommandError when it does not listen."""
    os.makedirs(shared(home), mode=0o700, exist_ok=True)
    remove(podman, home)
    with open(f"{root}/podman/seccomp.json", encoding="utf-8") as file:
        write_whole(_profile_of(home), json.dumps(profile(json.load(file))).encode(), mode=0o600)
    _allow(podman, home, "770")
    podman(*eye_words(home, settings, machine, image))
    podman("start", eye_name(home.agent))
    until = time.monotonic() + START_SECONDS
    while not os.path.exists(f"{shared(home)}/eye.sock"):
        if time.monotonic() > until:
            said = podman("logs", "--tail=5", eye_name(home.agent), merged=True)
            raise failure(f"the container {eye_name(home.agent)} does not listen: {said or 'it said nothing'}")
        time.sleep(0.02)
    _allow(podman, home, "750")  # a browser that was taken over does not fill the memory of the PM's directory


def _allow(podman: Podman, home: AgentPaths, mode: str) -> None:
    podman("unshare", "sh", "-c", f'chown 0:{USER} "$0" && chmod {mode} "$0"', shared(home))


def remove(podman: Podman, home: AgentPaths) -> None:
    """Of an agent that has none, podman is not asked. Raises PodmanError."""
    if not os.path.isdir(shared(home)):
        return
    podman("rm", "--force", "--time=0", "--ignore", eye_name(home.agent))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{shared(home)}/eye.sock")


def state(podman: Podman, home: AgentPaths) -> str:
    """What is wrong with it; empty when it runs."""
    try:
        [found] = podman.json("container", "inspect", eye_name(home.agent))
    except PodmanError:
        return "its container is not there; 'minifram restart' makes it"
    status = found["State"]["Status"]
    return "" if status == "running" else f"its container is {status}; 'minifram restart' starts it again"

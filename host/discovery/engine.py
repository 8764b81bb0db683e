"""The container of one run, made with Podman or Docker and removed again.

It is not sealed: it has a network, and its boundary is the container alone. So it is given nothing but the world, which
it can only read, and a new volume for its home."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from host.container import machine
from host.container.podman import PodmanError, call, environment, telling
from host.display import Say
from host.errors import CommandError, conflict, failure, not_found

PODMAN, DOCKER = "podman", "docker"
IMAGE = "ai_discovery_agent"
"""As docker-compose.yml calls it."""
RECIPE = "discovery/sandbox"
LABEL = "minifram.discovery"
PROCESSES = 4096
CALL_SECONDS, BUILD_SECONDS = 120.0, 1800.0
_OF_DOCKER = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY")


class Engine(NamedTuple):
    """Ready to be called."""

    name: str
    """`podman` or `docker`; also how the scripts of `discovery/` call it."""
    program: str
    environ: dict[str, str]
    words: tuple[str, ...] = ()
    """Global options that this machine needs, before every verb."""
    limits: tuple[str, ...] = ()
    """Options of `run`."""

    def __call__(self, *words: str, seconds: float = CALL_SECONDS) -> str:
        """What it prints. Raises PodmanError."""
        return call((self.program, *self.words, *words), self.environ, seconds=seconds)


class Explorer(NamedTuple):
    """A container to be made."""

    name: str
    image: str
    world: str
    """The directory of the host that becomes /world."""
    run: str
    """Which run it is for."""
    network: str = ""
    """Empty for the engine's own, which is open to the internet."""

    @property
    def volume(self) -> str:
        """Of its home."""
        return f"{self.name}_home"


def find(name: str, environ: Mapping[str, str], uid: int) -> Engine:
    """Raises CommandError when it is not there, or does not answer."""
    given = environment(environ) | {key: environ[key] for key in _OF_DOCKER if key in environ}
    program = shutil.which(name, path=given["PATH"])
    if not program:
        other = DOCKER if name == PODMAN else PODMAN
        raise not_found(f"{name} is not installed or not on PATH: install it, or take {other} with --engine {other}")
    try:
        call((program, "version"), given)
    except PodmanError as error:
        raise failure(f"{name} does not answer: {_last_line(error)}; see whether '{name} info' works") from None
    here = machine.look(environ, uid) if name == PODMAN else None
    return Engine(name, program, given, here.words if here else (), tuple(_limits(here, uid)))


def _limits(here: machine.Machine | None, uid: int) -> Iterator[str]:
    """What a command that forks for ever meets; `here` is None for Docker."""
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    most = PROCESSES if here is None or hard == resource.RLIM_INFINITY else min(PROCESSES, hard)
    yield f"--ulimit=nproc={most}:{most}"
    if here is None or uid == 0 or "pids" in here.controllers:
        yield f"--pids-limit={PROCESSES}"
    if here and here.selinux:
        yield "--security-opt=label=disable"  # else the world would have to get another label


def has_image(engine: Engine, image: str) -> bool:
    """Raises PodmanError when the engine does not answer."""
    try:
        engine("image", "inspect", "--format={{.Id}}", image)
    except PodmanError as error:
        if "no such image" in error.said.lower() or "not known" in error.said.lower():
            return False
        raise
    return True


def build(engine: Engine, root: str, environ: Mapping[str, str], say: Say) -> None:
    """The image of `sandbox/Dockerfile.agent`. Raises CommandError."""
    folder = f"{root}/{RECIPE}"
    say(f"building the image {IMAGE}, which is done once and takes some minutes")
    words = (engine.program, "build", "--tag", IMAGE, "--file", f"{folder}/Dockerfile.agent", folder)
    fetching = engine.environ | environment(environ, fetching=True)
    try:
        call(words, fetching, seconds=BUILD_SECONDS, meanwhile=telling(say, "building"), merged=True)
    except PodmanError as error:
        raise failure(
            f"the image {IMAGE} could not be built: {error.said[-600:]}\nIt needs debian:stable-slim and Debian's "
            f"packages from the internet. Try it by hand: {engine.name} build --tag {IMAGE} {folder} "
            f"--file {folder}/Dockerfile.agent; or name an image of your own with --image"
        ) from None


def start(engine: Engine, explorer: Explorer) -> None:
    """Make and start the container. Raises CommandError, with nothing of ours left behind."""
    for kind, name in (("container", explorer.name), ("volume", explorer.volume)):
        if _is_there(engine, kind, name):
            verb = "rm --force" if kind == "container" else "volume rm"
            raise conflict(
                f"a {kind} {name} is there already; remove it ('{engine.name} {verb} {name}'), or give another name "
                "with --name"
            )
    network = (f"--network={explorer.network}",) if explorer.network else ()
    try:
        engine("volume", "create", f"--label={LABEL}={explorer.run}", explorer.volume)
        engine(
            *("run", "--detach", "--tty", "--interactive", "--pull=never", f"--name={explorer.name}"),
            f"--label={LABEL}={explorer.run}",
            *(*engine.limits, *network),
            f"--volume={explorer.volume}:/home/agent",
            f"--volume={explorer.world}:/world:ro",
            *("--workdir=/home/agent", "--entrypoint=/bin/bash", explorer.image),
        )
    except PodmanError as error:
        remove(engine, explorer)
        raise failure(f"the container {explorer.name} could not be started: {_last_line(error)}") from None
    except BaseException:
        remove(engine, explorer)
        raise


def remove(engine: Engine, explorer: Explorer) -> list[str]:
    """Container and volume; what could not be removed, in words. Only what is labelled for this run is touched."""
    left = []
    for kind, name, words in (
        ("container", explorer.name, ("rm", "--force", "--volumes")),
        ("volume", explorer.volume, ("volume", "rm", "--force")),
    ):
        try:
            if _owner(engine, kind, name) == explorer.run:
                engine(*words, name)
        except PodmanError as error:
            left.append(
                f"the {kind} {name} could not be removed ({_last_line(error)}): {engine.name} {' '.join(words)}"
            )
    return left


def _is_there(engine: Engine, kind: str, name: str) -> bool:
    return _owner(engine, kind, name) is not None


def _owner(engine: Engine, kind: str, name: str) -> str | None:
    """The run that it is labelled for, empty for none; None when it is not there. Raises PodmanError."""
    labels = ".Config.Labels" if kind == "container" else ".Labels"
    try:
        said = engine(kind, "inspect", f'--format={{{{index {labels} "{LABEL}"}}}}', name).strip()
    except PodmanError as error:
        if "no such" in error.said.lower():
            return None
        raise
    return "" if said == "<no value>" else said


def _last_line(error: PodmanError) -> str:
    return (error.said.splitlines() or ["it gave no reason"])[-1]


def problem_with_world(path: str) -> CommandError | None:
    """Why a directory cannot be mounted."""
    if not os.path.isdir(path):
        return not_found(f"there is no directory {path}; 'minifram discover world' makes one")
    if any(character in path for character in ":,\n"):
        return failure(f"{path} holds ':', ',' or a line break, which no engine takes in a mount; rename it")
    return None

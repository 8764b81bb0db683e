"""How the container is sealed (spec/ARCHITECTURE.md), as one value, and the words of `podman create` that say it.

Pure: every flag that isolates stands here in the open, none is left to podman's defaults or to the PM's
containers.conf. What else runs the container (units, manifests) is made from the same value."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from host.container.machine import IDS_NEEDED, Machine
from host.paths import AgentPaths
from infra.shared.paths import CONTAINER
from infra.shared.settings import Settings

CELL_UID = 1000
"""The user `agent` of the image; its group has the same number."""

AGENT, HOME, VERSION, WORDS = "minifram.agent", "minifram.home", "minifram.version", "minifram.words"
"""Labels: whose container it is, where that agent lives, the version of its image, and of these words."""

CAPABILITIES = ("KILL", "NET_ADMIN", "SETGID", "SETPCAP", "SETUID")
"""What the entrypoint starts with; it gives NET_ADMIN and SETPCAP up before anything of the cell runs."""

SETTINGS_FILE = "/etc/minifram/minifram.yaml"
KEY_FOLDER = CONTAINER.secrets
"""Not below /run/secrets: podman 4 cannot put a secret there when the root is read-only."""

MIB = 1 << 20
KEEPS_PROCESSES = 256
"""Of the container's, that neither the agent nor an examination can use up."""
EXAMINERS_PROCESSES = 512
"""Two fifths of what the agent may have (`infra.keep.examination.examiner`)."""
ENVIRONMENT = {
    "PATH": "/opt/minifram/.venv/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    "LANG": "C.UTF-8",
    "HOME": "/root",
}
"""All that the entrypoint finds in its environment, beside what podman adds."""
SYSTEM_V = {
    "kernel.shmall": "65536",  # pages: 256 MiB
    "kernel.shmmni": "128",
    "kernel.sem": "250 4096 32 128",
    "kernel.msgmni": "32",
}
"""sysvipc(7): what outlives its maker, in the kernel's memory and without a bound otherwise."""


class Bind(NamedTuple):
    """A file or directory of the host's. Nothing in one is ever executed."""

    source: str
    target: str
    is_read_only: bool


class Volume(NamedTuple):
    """A named volume that stands for a directory of the host's, so that the PM reads there what the agent writes."""

    name: str
    source: str
    target: str
    owner: int
    """In the container; group likewise."""
    executable: bool


class Scratch(NamedTuple):
    """Memory that is gone with the container."""

    target: str
    mode: int
    bytes: int
    executable: bool = False


class Secret(NamedTuple):
    name: str
    target: str
    mode: int = 0o400


class Network(NamedTuple):
    """How packets leave the container's own network namespace."""

    mode: str
    upstream: str
    """The resolver that the keep's own one asks."""


NETWORKS = {
    # The host's loopback stays out of reach from inside: both would offer it otherwise, on an address of their own.
    "slirp4netns": Network("slirp4netns:allow_host_loopback=false", "10.0.2.3"),
    "pasta": Network("pasta:--no-map-gw,--dns-forward,169.254.1.1", "169.254.1.1"),
    "none": Network("none", "10.0.2.3"),
}
"""By the program that makes it; `none` leaves the loopback device alone."""


class ResourceLimits(NamedTuple):
    """None for what this machine cannot limit."""

    processes: int
    """Of one user in the container."""
    open_files: int
    pids: int | None
    """Of the whole container."""
    memory_bytes: int | None
    cpus: float | None


class Sealing(NamedTuple):
    """Everything that a container is made with."""

    agent: str
    name: str
    home: str
    image: str
    version: str
    seccomp: str
    binds: tuple[Bind, ...]
    volumes: tuple[Volume, ...]
    scratch: tuple[Scratch, ...]
    secrets: tuple[Secret, ...]
    limits: ResourceLimits
    network: Network
    stop_seconds: int
    log_driver: str
    log_bytes: int
    relabels: bool
    """SELinux is on: what is bound must get the container's label."""
    command: tuple[str, ...]
    """The arguments of the image's entrypoint."""


class Names(NamedTuple):
    """What belongs to one agent in podman."""

    container: str
    bot: str
    state: str
    aside: str
    """The container of before, while an upgrade is under way."""


def names(agent: str) -> Names:
    base = f"minifram-{agent}"
    # No agent's name holds a dot, so what is set aside is never another agent's.
    return Names(base, f"{base}-bot", f"{base}-state", f"{base}.before")


def secret_name(agent: str, key: str) -> str:
    """What podman calls the key with this name."""
    return f"minifram-{agent}-{key}"


class Image(NamedTuple):
    """A built image: what to call it by, and which inputs it was made from."""

    name: str
    version: str


def sealing(
    home: AgentPaths,
    settings: Settings,
    machine: Machine,
    image: Image,
    root: str,
    keys: Sequence[str],
    network: str = "",
) -> Sealing:
    """The container of `home` on `machine`, with the keys of these names; `network`, if given, instead of the way out
    that this machine has."""
    named, podman = names(home.agent), settings.podman
    way_out = NETWORKS[network or ("none" if podman.network == "none" else machine.network)]
    remote = CONTAINER.remote
    return Sealing(
        agent=home.agent,
        name=named.container,
        home=home.data,
        image=image.name,
        version=image.version,
        seccomp=f"{root}/podman/seccomp.json",
        binds=(
            # The top level of the repository is memory: whatever is planted there never reaches the PM's git.
            Bind(f"{home.remote}/HEAD", f"{remote}/HEAD", True),
            Bind(f"{home.remote}/config", f"{remote}/config", True),
            Bind(f"{home.remote}/packed-refs", f"{remote}/packed-refs", True),
            Bind(f"{home.remote}/objects", f"{remote}/objects", False),
            # What git would read objects from somewhere else by; nothing that is pushed needs it.
            Bind(f"{home.remote}/objects/info", f"{remote}/objects/info", True),
            Bind(f"{home.remote}/refs", f"{remote}/refs", False),
            Bind(home.settings, SETTINGS_FILE, True),
        ),
        volumes=(
            Volume(named.bot, home.places.bot, CONTAINER.bot, CELL_UID, True),
            Volume(named.state, home.places.var, CONTAINER.var, 0, True),
        ),
        scratch=(
            Scratch(remote, 0o700, MIB),
            Scratch(CONTAINER.run, 0o711, 16 * MIB),
            # Builds and tests run what they make there; the cell can do the same in /bot, so nothing is lost.
            Scratch("/tmp", 0o1777, podman.tmp_bytes, executable=True),  # noqa: S108 - the container's own
            Scratch("/var/tmp", 0o1777, 64 * MIB),  # noqa: S108 - likewise
            # Checkouts of branches that are examined, and what their tests write, in directories of the examiner's.
            Scratch("/examination", 0o1777, 512 * MIB, executable=True),
        ),
        secrets=tuple(Secret(secret_name(home.agent, key), f"{KEY_FOLDER}/{key}") for key in keys),
        limits=ResourceLimits(
            # The keep is not to be out of processes when the agent is.
            processes=min(
                max(podman.pids - KEEPS_PROCESSES - EXAMINERS_PROCESSES, podman.pids // 2), machine.hard_processes
            ),
            open_files=min(podman.open_files, machine.hard_files),
            pids=podman.pids if "pids" in machine.controllers else None,
            memory_bytes=podman.memory_bytes if "memory" in machine.controllers else None,
            cpus=podman.cpus if "cpu" in machine.controllers else None,
        ),
        network=way_out,
        stop_seconds=round(2 * settings.limits.grace_seconds) + 40,
        log_driver=machine.log_driver,
        log_bytes=settings.limits.log_bytes,
        relabels=machine.selinux,
        command=(
            f"--settings={SETTINGS_FILE}",
            f"--upstream={way_out.upstream}",
            *(f"--host={network}" for network in machine.networks),
        ),
    )


def create_words(sealed: Sealing) -> list[str]:
    """Behind `podman`, all that makes the container."""
    labels = {AGENT: sealed.agent, HOME: sealed.home, VERSION: sealed.version, WORDS: fingerprint(sealed)}
    labelled = [f"--label={name}={value}" for name, value in labels.items()]
    return ["create", f"--name={sealed.name}", *labelled, *_isolation(sealed), sealed.image, *sealed.command]


def fingerprint(sealed: Sealing) -> str:
    """Another value whenever a container has to be made again."""
    identity = "\0".join([*_isolation(sealed), sealed.image, *sealed.command])
    return hashlib.sha256(identity.encode(errors="surrogateescape")).hexdigest()[:16]


def volume_words(volume: Volume, agent: str, home: str) -> list[str]:
    """Behind `podman`, what makes the volume."""
    labels = [f"--label={AGENT}={agent}", f"--label={HOME}={home}"]
    options = [f"--opt={name}={value}" for name, value in volume_options(volume).items()]
    return ["volume", "create", *labels, *options, volume.name]


def volume_options(volume: Volume) -> dict[str, str]:
    """What podman tells of a volume that is as it should be. With `uid` given it leaves the directory's owner alone."""
    return {"type": "none", "o": f"bind,uid={volume.owner},gid={volume.owner}", "device": volume.source}


def secret_words(name: str, agent: str) -> list[str]:
    """Behind `podman`; the secret itself comes on stdin."""
    return ["secret", "create", f"--label={AGENT}={agent}", name, "-"]


def _isolation(sealed: Sealing) -> Iterator[str]:
    limits, network = sealed.limits, sealed.network
    yield "--pull=never"
    yield "--user=0:0"
    yield "--workdir=/"
    yield "--hostname=minifram"
    yield "--cap-drop=all"
    yield f"--cap-add={','.join(CAPABILITIES)}"
    yield "--security-opt=no-new-privileges"
    yield f"--security-opt=seccomp={sealed.seccomp}"
    yield "--read-only"
    yield "--read-only-tmpfs=false"
    # The same ids as in the user's own namespace, so the keep's root is the PM; but what is counted for each user of a
    # namespace, processes above all, no agent uses up for another (ulimit -u, user_namespaces(7)).
    yield from (f"--{kind}=0:0:{IDS_NEEDED}" for kind in ("uidmap", "gidmap"))
    yield from ("--ipc=private", "--uts=private", "--pid=private", "--cgroupns=private")
    yield "--systemd=false"
    yield "--init=false"  # the watcher reaps
    yield "--sdnotify=conmon"  # no socket of systemd's inside
    yield "--env-host=false"
    yield "--http-proxy=false"
    yield "--unsetenv-all"
    yield from (f"--env={name}={value}" for name, value in ENVIRONMENT.items())
    yield f"--network={network.mode}"
    yield from (f"--sysctl={name}={value}" for name, value in SYSTEM_V.items())
    yield "--no-hosts"
    yield "--sysctl=net.ipv4.ip_unprivileged_port_start=53"  # the keep's resolver is no root and has no capability
    if network.mode != "none":  # podman refuses the two together
        yield from ("--dns=127.0.0.1", "--dns-search=.")
    yield f"--ulimit=nofile={limits.open_files}:{limits.open_files}"
    yield f"--ulimit=nproc={limits.processes}:{limits.processes}"
    yield "--ulimit=core=0:0"
    if limits.pids is not None:
        yield f"--pids-limit={limits.pids}"
    if limits.memory_bytes is not None:
        yield f"--memory={limits.memory_bytes}"
    if limits.cpus is not None:
        yield f"--cpus={limits.cpus:g}"
    yield f"--stop-timeout={sealed.stop_seconds}"
    yield "--stop-signal=SIGTERM"
    yield "--restart=no"
    yield f"--log-driver={sealed.log_driver}"
    if sealed.log_driver == "k8s-file":
        yield f"--log-opt=max-size={sealed.log_bytes}"
    yield "--shm-size=16m"
    yield from _mounts(sealed)


def _mounts(sealed: Sealing) -> Iterator[str]:
    noexec = {True: "", False: ",noexec"}
    for scratch in sealed.scratch:
        # notmpcopyup: it begins empty, with this mode, whatever the image has in its place.
        how = f"rw,nosuid,nodev{noexec[scratch.executable]},notmpcopyup,mode={scratch.mode:04o},size={scratch.bytes}"
        yield f"--tmpfs={scratch.target}:{how}"
    for bind in sealed.binds:
        fields = ["type=bind", f"src={bind.source}", f"dst={bind.target}"]
        fields += ["ro=true" if bind.is_read_only else "ro=false", "nosuid", "nodev", "noexec"]
        fields += ["bind-propagation=rprivate", *(["relabel=private"] if sealed.relabels else [])]
        line = io.StringIO()  # podman reads it as one line of CSV: a path may hold commas and quotes
        csv.writer(line).writerow(fields)
        yield "--mount=" + line.getvalue().removesuffix("\r\n")
    for volume in sealed.volumes:
        how = f"rw,nosuid,nodev{noexec[volume.executable]}{',Z' if sealed.relabels else ''}"
        yield f"--volume={volume.name}:{volume.target}:{how}"
    for secret in sealed.secrets:
        yield f"--secret={secret.name},type=mount,uid=0,gid=0,mode={secret.mode:04o},target={secret.target}"

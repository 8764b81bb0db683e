"""The words of `podman create` that seal an agent (spec/ARCHITECTURE.md), in one list from top to bottom.

Pure: every flag that isolates stands here in the open, none is left to podman's defaults; `podman/containers.conf`
(empty) keeps the PM's own out. The seal looks at the outcome from inside, and starts nothing in a looser container."""

from __future__ import annotations

import csv
import io
import os.path
from collections.abc import Iterator, Mapping, Sequence

from host.container.machine import IDS_NEEDED, Machine
from host.home import AgentPaths
from infra.keep.settings.check import variables
from infra.keep.settings.schema import Settings
from infra.keep.timing import Timing
from infra.shared.paths import CODE, CONTAINER, EYE_SOCKET

CELL_UID = 1000
"""The user `agent` of the image; its group has the same number."""
EYE = os.path.dirname(EYE_SOCKET)
HOME = "minifram.home"
"""Label: where the agent lives whose container it is."""
CAPABILITIES = ("KILL", "NET_ADMIN", "SETGID", "SETPCAP", "SETUID")
"""What the entrypoint starts with; it gives NET_ADMIN and SETPCAP up before anything of the cell runs."""
IMAGES_ROOT = "/opt/minifram"
"""Where the installed code lies in the image."""
SETTINGS_FILE = "/etc/minifram/minifram.yaml"
MIB = 1 << 20
KEEPS_PROCESSES = 256
"""Of the container's, that neither the agent nor an examination can use up."""
EXAMINERS_PROCESSES = 512
"""Two fifths of what the agent may have (`infra.keep.examination.examiner`)."""
NETWORKS = {
    # The host's loopback stays out of reach from inside: both would offer it otherwise, on an address of their own.
    "slirp4netns": ("slirp4netns:allow_host_loopback=false", "10.0.2.3"),
    "pasta": ("pasta:--no-map-gw,--dns-forward,169.254.1.1", "169.254.1.1"),
    "none": ("none", "10.0.2.3"),
}
"""By the program that makes the way out: the network, and the resolver that the keep's own one asks; `none` leaves the
loopback device alone."""


def container_name(agent: str) -> str:
    return f"minifram-{agent}"


def eye_name(agent: str) -> str:
    return f"{container_name(agent)}.eye"  # no agent's name holds a dot


def cell_words(agent: str, module: str) -> list[str]:
    """Behind `podman`, all that starts a module of the image's code as the cell's user, spoken to by its streams."""
    user = f"--user={CELL_UID}:{CELL_UID}"
    python = (f"{IMAGES_ROOT}/.venv/bin/python", "-s", "-P", "-m", module)
    environ = (f"--env=PYTHONPATH={IMAGES_ROOT}", "--env=HOME=/bot")
    return ["exec", "--interactive", user, "--workdir=/bot", *environ, container_name(agent), *python]


def create_words(
    home: AgentPaths,
    settings: Settings,
    machine: Machine,
    image: str,
    root: str,
    keys: Sequence[str],
    network: str = "",
    environ: Mapping[str, str] | None = None,
) -> list[str]:
    """Behind `podman`, all that makes the container of `home` on `machine`, with the keys of these names; `network`, if
    given, instead of the way out that this machine has. Of `environ` it gets what stands for settings."""
    way_out = network or ("none" if settings.podman.network == "none" else machine.network)
    return [
        "create",
        f"--name={container_name(home.agent)}",
        f"--label={HOME}={home.data}",
        *fences(f"{root}/podman/seccomp.json", way_out),
        *(f"--env={name}={value}" for name, value in variables(environ or {}).items()),
        *_limits(settings, machine),
        *_mounts(home, settings, machine, keys),
        image,
        f"--settings={SETTINGS_FILE}",
        f"--upstream={NETWORKS[way_out][1]}",
        *(f"--host={each}" for each in machine.networks),
    ]


OPEN_FILES = 16_384
"""Of one process: more than any build has open, and less than fills the kernel's table."""
TMP_BYTES = 512 * MIB
"""It is memory; large files belong to the agent's directory."""


def fences(seccomp: str, way_out: str, user: int = 0, capabilities: Sequence[str] = CAPABILITIES) -> Iterator[str]:
    """What every sealed container has, whatever it holds and however large it may grow."""
    yield from ("--pull=never", f"--user={user}:{user}", "--workdir=/", "--hostname=minifram", "--cap-drop=all")
    yield from (f"--cap-add={','.join(capabilities)}",) if capabilities else ()
    yield from ("--security-opt=no-new-privileges", f"--security-opt=seccomp={seccomp}")
    yield from ("--read-only", "--read-only-tmpfs=false")
    # The same ids as in the user's own namespace, so the keep's root is the PM; but what is counted for each user of a
    # namespace, processes above all, no agent uses up for another (ulimit -u, user_namespaces(7)).
    yield from (f"--{kind}=0:0:{IDS_NEEDED}" for kind in ("uidmap", "gidmap"))
    yield from ("--ipc=private", "--uts=private", "--pid=private", "--cgroupns=private")
    yield from ("--systemd=false", "--init=false", "--sdnotify=conmon")  # the watcher reaps; no socket of systemd's
    yield from ("--env-host=false", "--http-proxy=false", "--unsetenv-all")
    yield "--env=PATH=/opt/minifram/.venv/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    yield from ("--env=LANG=C.UTF-8", "--env=HOME=/root")
    yield f"--network={NETWORKS[way_out][0]}"
    # sysvipc(7): what outlives its maker, in the kernel's memory and without a bound otherwise; shmall is in pages.
    yield from ("--sysctl=kernel.shmall=65536", "--sysctl=kernel.shmmni=128")
    yield from ("--sysctl=kernel.sem=250 4096 32 128", "--sysctl=kernel.msgmni=32")
    yield "--sysctl=net.ipv4.ip_unprivileged_port_start=53"  # the keep's resolver is no root and has no capability
    yield "--no-hosts"
    if way_out != "none":  # podman refuses the two together
        yield from ("--dns=127.0.0.1", "--dns-search=.")
    yield from ("--stop-signal=SIGTERM", "--restart=no", "--shm-size=16m", "--ulimit=core=0:0")


def scratch(target: str, mode: int, size: int, executable: bool = False) -> str:
    """Memory that is gone with the container. notmpcopyup: it begins empty, whatever the image has in its place."""
    noexec = "" if executable else ",noexec"
    return f"--tmpfs={target}:rw,nosuid,nodev{noexec},notmpcopyup,mode={mode:04o},size={size}"


def _limits(settings: Settings, machine: Machine) -> Iterator[str]:
    podman = settings.podman
    # The keep is not to be out of processes when the agent is.
    cells = max(podman.pids - KEEPS_PROCESSES - EXAMINERS_PROCESSES, podman.pids // 2)
    yield from limited(machine, settings, cells, podman.pids, podman.memory_bytes)
    yield f"--stop-timeout={round(2 * Timing().grace_seconds) + 40}"


def limited(machine: Machine, settings: Settings, of_a_user: int, pids: int, memory_bytes: int) -> Iterator[str]:
    """`of_a_user`: processes. What this machine cannot limit is not limited; `minifram up` says so."""
    files, processes = min(OPEN_FILES, machine.hard_files), min(of_a_user, machine.hard_processes)
    cpus = settings.podman.cpus
    yield from (f"--ulimit=nofile={files}:{files}", f"--ulimit=nproc={processes}:{processes}")
    for controller, word in (
        ("pids", f"--pids-limit={pids}"),
        ("memory", f"--memory={memory_bytes}"),
        ("cpu", f"--cpus={cpus:g}" if cpus is not None else ""),
    ):
        if word and controller in machine.controllers:
            yield word
    yield f"--log-driver={machine.log_driver}"
    if machine.log_driver == "k8s-file":
        yield f"--log-opt=max-size={settings.limits.log_bytes}"


def _mounts(home: AgentPaths, settings: Settings, machine: Machine, keys: Sequence[str]) -> Iterator[str]:
    remote = CONTAINER.remote
    # The top level of the repository is memory: whatever is planted there never reaches the PM's git.
    yield scratch(remote, 0o700, MIB)
    yield scratch(CONTAINER.run, 0o711, 16 * MIB)
    yield scratch(CODE, 0o711, 32 * MIB, executable=True)
    # Builds and tests run what they make there; the cell can do the same in /bot, so nothing is lost.
    yield scratch("/tmp", 0o1777, TMP_BYTES, executable=True)  # noqa: S108 - the container's own
    yield scratch("/var/tmp", 0o1777, 64 * MIB)  # noqa: S108 - likewise
    # Checkouts of branches that are examined, and what their tests write, in directories of the examiner's.
    yield scratch("/examination", 0o1777, 512 * MIB, executable=True)
    for source, target, how in (
        *((f"{home.remote}/{name}", f"{remote}/{name}", "ro,noexec") for name in ("HEAD", "config", "packed-refs")),
        (f"{home.remote}/objects", f"{remote}/objects", "rw,noexec"),
        # What git would read objects from somewhere else by; nothing that is pushed needs it.
        (f"{home.remote}/objects/info", f"{remote}/objects/info", "ro,noexec"),
        (f"{home.remote}/refs", f"{remote}/refs", "rw,noexec"),
        (home.settings, SETTINGS_FILE, "ro,noexec"),
        *((home.key_file(key), f"{CONTAINER.secrets}/{key}", "ro,noexec") for key in keys),
        (home.places.bot, CONTAINER.bot, "rw"),
        (home.places.var, CONTAINER.var, "rw"),
        (home.places.events, CONTAINER.events, "rw,noexec"),
        *([(shared_directory(home), EYE, "ro,noexec")] if settings.web.browser == "on" else []),
    ):
        yield bound(machine, source, target, how)


def shared_directory(home: AgentPaths) -> str:
    """Of the agent's container and of its browser's, on the host: memory, and gone with them."""
    return f"{home.run}/eye"


def bound(machine: Machine, source: str, target: str, how: str) -> str:
    access, *noexec = how.split(",")
    fields = ["type=bind", f"src={source}", f"dst={target}", f"ro={'true' if access == 'ro' else 'false'}"]
    fields += ["nosuid", "nodev", *noexec, "bind-propagation=rprivate"]
    fields += [f"relabel={'shared' if target == EYE else 'private'}"] if machine.selinux else []
    line = io.StringIO()  # podman reads it as one line of CSV: a path may hold commas and quotes
    csv.writer(line).writerow(fields)
    return "--mount=" + line.getvalue().removesuffix("\r\n")

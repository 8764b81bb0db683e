"""What podman on this machine can do, looked at once, judged as a value.

`look` touches the world, everything else is pure: what is missing, which global options podman needs here, which of our
limits it can keep, and the machine's own public networks, which the agent must not reach as if it stood in them."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import re
import resource
import shutil
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from host.container.podman import Podman, PodmanError, call, environment

PODMAN_NEEDED = (4, 3)
IDS_NEEDED = 65_536
WIDEST = {4: 16, 6: 32}
"""A wider network is somebody's mistake or the whole world; then only the address itself is closed."""


class Machine(NamedTuple):
    """Facts; empty and zero stand for what is not there or could not be learned."""

    uid: int
    user: str = ""
    podman: str = ""
    """Path of the program."""
    version: tuple[int, int] = (0, 0)
    refusal: str = ""
    """What podman said when it could not even tell about itself."""
    runtime: str = ""
    has_runc: bool = False
    cgroups: int = 2
    controllers: frozenset[str] = frozenset()
    """Of cgroups, those that this user may set limits with."""
    log_driver: str = "k8s-file"
    selinux: bool = False
    ids: int = IDS_NEEDED
    """How many user ids a container of this user has."""
    first_id: int = 0
    """The host's uid behind the container's uid 1."""
    slirp4netns: str = ""
    pasta: str = ""
    hard_files: int = 1 << 20
    hard_processes: int = 1 << 20
    networks: tuple[str, ...] = ()
    """The machine's own public ones, which a container would reach as if it stood in them."""
    obstacles: tuple[str, ...] = ()
    """What was seen to be in the way before podman was asked."""

    @property
    def words(self) -> tuple[str, ...]:
        """Global options: crun refuses a machine whose cgroups are those of version 1."""
        return ("--runtime=runc",) if self.runtime == "crun" and self.cgroups == 1 and self.has_runc else ()

    @property
    def network(self) -> str:
        """What gives a container its own way out; empty when nothing does."""
        if self.version >= (5, 0) and self.pasta:
            return "pasta"
        return "slirp4netns" if self.slirp4netns else ""

    def host_uid(self, inside: int) -> int:
        """The host's uid of a user in the container."""
        return self.uid if inside == 0 else self.first_id + inside - 1


def lacks(machine: Machine) -> Iterator[str]:
    """What keeps this user from a sealed container and how to get it, the first thing to do first."""
    if machine.uid == 0:
        yield "only the rootless container is sealed (root inside would be root): run minifram as an ordinary user"
        return
    if not machine.podman:
        yield "podman is not installed: apt-get install podman uidmap slirp4netns"
        return
    yield from machine.obstacles
    if machine.refusal:
        yield f"podman does not work: {machine.refusal}: fix that first; 'podman info' shows it"
        return
    found, needed = (".".join(map(str, version)) for version in (machine.version, PODMAN_NEEDED))
    if machine.version < PODMAN_NEEDED:
        yield f"podman is {found}; needed is {needed} or newer: upgrade it (Debian 12 has 4.3, Debian 13 has 5)"
    if machine.ids < IDS_NEEDED:
        user, ids = machine.user or str(machine.uid), f"100000-{100_000 + IDS_NEEDED - 1}"
        yield (
            f"{user} has {machine.ids} ids for containers; {IDS_NEEDED} are needed (/etc/subuid, /etc/subgid); root: "
            f"apt-get install uidmap && usermod --add-subuids {ids} --add-subgids {ids} {user}; "
            "then: podman system migrate"
        )
    if machine.cgroups == 1 and machine.runtime != "runc" and not machine.has_runc:
        yield f"cgroups are version 1 or hybrid here, and {machine.runtime} refuses that: apt-get install runc"
    if not machine.network:
        package = "passt" if machine.version >= (5, 0) else "slirp4netns"
        yield f"nothing gives a container a network of its own: apt-get install {package}"


def unlimited(machine: Machine) -> list[str]:
    """The resources that podman cannot limit here; a container runs all the same."""
    return sorted({"memory", "pids"} - machine.controllers)


def look(environ: Mapping[str, str], uid: int) -> Machine:
    """This machine, for this user. Starts podman only when there is one and the user is not root."""
    handed = environment(environ)
    program, runc, slirp4netns, pasta = (
        shutil.which(name, path=handed["PATH"]) or "" for name in ("podman", "runc", "slirp4netns", "pasta")
    )
    if not program or uid == 0:
        return Machine(uid, podman=program)
    limits = (resource.getrlimit(limit)[1] for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC))
    files, processes = (1 << 30 if limit == resource.RLIM_INFINITY else limit for limit in limits)
    obstacles, networks = [*_obstacles()], tuple[str, ...]()
    try:
        networks = networks_of(call(("ip", "-json", "address"), handed))
    except (PodmanError, ValueError) as error:
        obstacles.append(
            f"this machine's own addresses, which must be out of the agent's reach, cannot be learned ({error}): "
            "apt-get install iproute2"
        )
    machine = Machine(
        uid,
        user=handed.get("USER", ""),
        podman=program,
        has_runc=bool(runc),
        slirp4netns=slirp4netns,
        pasta=pasta,
        hard_files=files,
        hard_processes=processes,
        networks=networks,
        obstacles=tuple(obstacles),
    )
    try:
        return with_info(machine, Podman(program, handed).json("info", "--format=json"))
    except PodmanError as error:
        return machine._replace(refusal=error.said.splitlines()[-1] if error.said else str(error))


def _obstacles() -> Iterator[str]:
    tun = "/dev/net/tun"
    if not os.access(tun, os.R_OK | os.W_OK):
        yield (
            f"{tun} is missing, or you may not open it, and a container's network needs it: as root: "
            f"modprobe tun && chmod 666 {tun}"
        )
    for path in ("/proc/sys/kernel/unprivileged_userns_clone", "/proc/sys/user/max_user_namespaces"):
        with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
            if file.read().strip() == "0":
                yield f"{path} is 0: ordinary users can make no container: allow them user namespaces"


def networks_of(listed: str) -> tuple[str, ...]:
    """From `ip -j address`. Raises ValueError when it cannot be understood."""
    try:
        found = {
            ipaddress.ip_interface(f"{one['local']}/{one['prefixlen']}")
            for link in json.loads(listed)
            for one in link.get("addr_info", ())
            if "local" in one
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the machine's addresses cannot be understood: {error!r}") from None
    networks = {
        one.network if one.network.prefixlen >= WIDEST[one.version] else ipaddress.ip_network(one.ip)
        for one in found
        if one.ip.is_global
    }
    return tuple(map(str, sorted(networks, key=lambda network: (network.version, network))))


def with_info(machine: Machine, info: dict[str, Any]) -> Machine:
    """`machine` with what `podman info` says; a field that this version of podman lacks stays as it was."""
    host = info.get("host") or {}
    security = host.get("security") or {}
    version = re.match(r"(\d+)\.(\d+)", str((info.get("version") or {}).get("Version", "")))
    runtime = host.get("ociRuntime") or {}
    mapped, groups = ((host.get("idMappings") or {}).get(kind) or [] for kind in ("uidmap", "gidmap"))
    cgroups = 1 if host.get("cgroupVersion") == "v1" else 2
    rootless_limits = frozenset(host.get("cgroupControllers") or ()) if cgroups == 2 else frozenset[str]()
    return machine._replace(
        version=(int(version[1]), int(version[2])) if version else (0, 0),
        runtime=str(runtime.get("name", "")),
        cgroups=cgroups,
        controllers=rootless_limits,
        log_driver="journald" if host.get("logDriver") == "journald" else "k8s-file",
        selinux=bool(security.get("selinuxEnabled")),
        ids=min(_contiguous(mapped), _contiguous(groups or mapped)),
        first_id=next((int(part["host_id"]) for part in mapped if part.get("container_id") == 1), 0),
        slirp4netns=machine.slirp4netns or str((host.get("slirp4netns") or {}).get("executable", "")),
        pasta=machine.pasta or str((host.get("pasta") or {}).get("executable", "")),
    )


def _contiguous(mapped: list[dict[str, int]]) -> int:
    """How many ids are mapped from 0 up: uid 0, and the first range behind it, on which `Machine.host_uid` counts."""
    sizes = {int(part.get("container_id", -1)): int(part.get("size", 0)) for part in mapped}
    return sizes.get(0, 0) + sizes.get(1, 0)

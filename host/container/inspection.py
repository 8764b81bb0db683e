"""What podman tells the runtime to make, held against what was asked for. Pure.

The words of `podman create` are not the whole story: the PM's containers.conf can add mounts, devices, variables and
more to every container, and `podman inspect` does not show all of it. The runtime's own orders do (the configuration
of the OCI runtime specification); they are there before anything runs. A container that differs is not started."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from host.container.words import AGENT, CAPABILITIES, ENVIRONMENT, HOME, VERSION, WORDS, Sealing

ADDED_BY_PODMAN = frozenset(["HOSTNAME", "TERM", "container"])
"""Variables that hold nothing of the PM's."""
OF_EVERY_CONTAINER = frozenset(
    [
        *("/proc", "/sys", "/sys/fs/cgroup", "/dev", "/dev/pts", "/dev/mqueue", "/dev/shm"),  # noqa: S108 - its own
        *("/etc/hostname", "/etc/resolv.conf", "/run/.containerenv", "/run/secrets"),
    ]
)
"""Where podman mounts something of its own making."""
NAMESPACES = frozenset(["cgroup", "ipc", "mount", "network", "pid", "user", "uts"])
"""Those that are the container's own."""
MUST_BE_HIDDEN = frozenset(["/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"])
MUST_BE_READ_ONLY = frozenset(["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus"])

OVER = frozenset(["created", "configured", "initialized", "exited", "stopped", "dead", "removing"])
"""Statuses of a container in which nothing of it runs."""


class ContainerState(NamedTuple):
    """A container as podman tells of it."""

    id: str
    status: str
    pid: int
    """On the host; 0 when it does not run."""
    exit_code: int
    error: str
    agent: str
    """Its labels; empty when it is none of ours."""
    home: str
    version: str
    words: str
    orders: str
    """Path of what the runtime is told; empty before that is settled."""
    image: str = ""
    """By the name that it was made from."""
    unit: str = ""
    """Of systemd, which made the container and takes it away; empty when the command did."""

    @property
    def runs(self) -> bool:
        return self.status not in OVER


def state_of(told: dict[str, Any]) -> ContainerState:
    """From one element of `podman container inspect`."""
    state = told.get("State") or {}
    labels = (told.get("Config") or {}).get("Labels") or {}
    return ContainerState(
        id=str(told.get("Id", "")),
        status=str(state.get("Status", "")),
        pid=int(state.get("Pid") or 0),
        exit_code=int(state.get("ExitCode") or 0),
        error=str(state.get("Error") or ""),
        agent=str(labels.get(AGENT, "")),
        home=str(labels.get(HOME, "")),
        version=str(labels.get(VERSION, "")),
        words=str(labels.get(WORDS, "")),
        orders=str(told.get("OCIConfigPath") or ""),
        image=str(told.get("ImageName") or ""),
        unit=str(labels.get("PODMAN_SYSTEMD_UNIT", "")),
    )


def differences(sealed: Sealing, orders: dict[str, Any], profile: dict[str, Any]) -> list[str]:
    """Each point in which the container will not be what was asked for; nothing when it will.

    `profile` is the seccomp profile, as it stands in its file."""
    process, linux = orders.get("process") or {}, orders.get("linux") or {}
    return [
        *_in_rights(process, linux, profile),
        *_in_roots(orders, linux),
        *_in_mounts(sealed, orders.get("mounts") or []),
        *_in_surroundings(sealed, process),
        *_in_limits(sealed, process, linux.get("resources") or {}),
    ]


def _in_rights(process: dict[str, Any], linux: dict[str, Any], profile: dict[str, Any]) -> Iterator[str]:
    wanted = {f"CAP_{name}" for name in CAPABILITIES}
    held = process.get("capabilities") or {}
    for kind in ("bounding", "effective", "permitted"):
        found = set(held.get(kind) or ())
        if found != wanted:
            yield f"{kind} capabilities are {_listed(found)}; expected {_listed(wanted)}"
    for kind in ("inheritable", "ambient"):
        if held.get(kind):
            yield f"{kind} capabilities are {_listed(set(held[kind]))}; expected none"
    if process.get("noNewPrivileges") is not True:
        yield "no-new-privileges is not set"
    user = process.get("user") or {}
    if (user.get("uid"), user.get("gid")) != (0, 0) or set(user.get("additionalGids") or ()) - {0}:
        yield f"it runs as {user}; expected uid and gid 0, no other group"
    seccomp = linux.get("seccomp") or {}
    if seccomp.get("defaultAction") != profile.get("defaultAction"):
        yield f"what seccomp does by default is {seccomp.get('defaultAction')}; expected {profile.get('defaultAction')}"
    more = _allowed_calls(seccomp) - _allowed_calls(profile)
    if more:
        yield f"seccomp allows {_listed(more)}, which our profile does not"


def _allowed_calls(profile: dict[str, Any]) -> set[str]:
    rules = [rule for rule in profile.get("syscalls") or () if rule.get("action") != profile.get("defaultAction")]
    return {str(name) for rule in rules for name in rule.get("names") or () if rule["action"] == "SCMP_ACT_ALLOW"}


def _in_roots(orders: dict[str, Any], linux: dict[str, Any]) -> Iterator[str]:
    if (orders.get("root") or {}).get("readonly") is not True:
        yield "its root file system can be written"
    namespaces = {str(item.get("type")): str(item.get("path") or "") for item in linux.get("namespaces") or ()}
    missing = NAMESPACES - namespaces.keys()
    if missing:
        yield f"it has no {_listed(missing)} namespace of its own"
    for kind, path in namespaces.items():
        if path and kind != "network":  # podman makes that one beforehand
            yield f"its {kind} namespace is another's: {path}"
    if linux.get("devices"):
        yield f"it has devices: {_listed({str(device.get('path')) for device in linux['devices']})}"
    for kind, wanted in (("maskedPaths", MUST_BE_HIDDEN), ("readonlyPaths", MUST_BE_READ_ONLY)):
        bare = wanted - set(linux.get(kind) or ())
        if bare:
            yield f"{_listed(bare)} should be in {kind}"


class _Asked(NamedTuple):
    """One mount as it must be. `source` is a whole path, or the end of one that podman chooses."""

    source: str
    options: frozenset[str]


def _asked(sealed: Sealing) -> dict[str, _Asked]:
    safe = {"nosuid", "nodev"}
    found: dict[str, _Asked] = {}
    for bind in sealed.binds:
        found[bind.target] = _Asked(bind.source, frozenset(safe | {"noexec", "ro" if bind.is_read_only else "rw"}))
    for volume in sealed.volumes:
        how = safe | {"rw"} | (set() if volume.executable else {"noexec"})
        found[volume.target] = _Asked(f"/volumes/{volume.name}/_data", frozenset(how))
    for scratch in sealed.scratch:
        how = (
            safe | {f"mode={scratch.mode:04o}", f"size={scratch.bytes}"} | (set() if scratch.executable else {"noexec"})
        )
        found[scratch.target] = _Asked("tmpfs", frozenset(how))
    for secret in sealed.secrets:
        found[secret.target] = _Asked(f"/secrets/{secret.name}", frozenset({*safe, "noexec", "ro"}))
    return found


def _in_mounts(sealed: Sealing, mounts: list[dict[str, Any]]) -> Iterator[str]:
    asked = _asked(sealed)
    found = {str(mount.get("destination")): mount for mount in mounts}
    for target in sorted(found.keys() - asked.keys() - OF_EVERY_CONTAINER):
        yield f"something is mounted at {target} that was not asked for: {found[target].get('source')}"
    for target, wanted in asked.items():
        mount = found.get(target)
        if mount is None:
            yield f"nothing is mounted at {target}"
            continue
        source = str(mount.get("source"))
        if not (source == wanted.source or (wanted.source[0] == "/" and source.endswith(wanted.source))):
            yield f"{source} is mounted at {target}; expected {wanted.source}"
        lacking = wanted.options - set(mount.get("options") or ())
        if lacking:
            yield f"{target} is mounted without {_listed(lacking)}"


def _in_surroundings(sealed: Sealing, process: dict[str, Any]) -> Iterator[str]:
    names = {str(variable).partition("=")[0] for variable in process.get("env") or ()}
    unknown = names - ENVIRONMENT.keys() - ADDED_BY_PODMAN
    if unknown:
        yield f"its environment holds {_listed(unknown)}, which was not asked for"
    words = tuple(str(word) for word in process.get("args") or ())
    if words[1:] != sealed.command:
        yield f"it is started with {list(words[1:])}; expected {list(sealed.command)}"


def _in_limits(sealed: Sealing, process: dict[str, Any], resources: dict[str, Any]) -> Iterator[str]:
    limits = sealed.limits
    wanted = {"NOFILE": limits.open_files, "NPROC": limits.processes, "CORE": 0}
    found = {str(item["type"]).removeprefix("RLIMIT_"): item["hard"] for item in process.get("rlimits") or ()}
    for name, limit in wanted.items():
        if found.get(name) != limit:
            yield f"RLIMIT_{name} is {found.get(name, 'not set')}; expected {limit}"
    memory, pids = (resources.get(kind) or {} for kind in ("memory", "pids"))
    if limits.memory_bytes is not None and memory.get("limit") != limits.memory_bytes:
        yield f"its memory is limited to {memory.get('limit')}; expected {limits.memory_bytes}"
    if limits.pids is not None and pids.get("limit") != limits.pids:
        yield f"its processes are limited to {pids.get('limit')}; expected {limits.pids}"


def _listed(names: set[str] | frozenset[str]) -> str:
    return ", ".join(sorted(names)) or "none"

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
    """Path of the runtime's orders; empty before that is settled."""
    image: str = ""
    """By the name that it was made from."""
    unit: str = ""
    """Of systemd, which made the container and takes it away; empty when the command did."""

    @property
    def runs(self) -> bool:
        return self.status not in OVER


def state_of(inspected: dict[str, Any]) -> ContainerState:
    """From one element of `podman container inspect`."""
    state = inspected.get("State") or {}
    labels = (inspected.get("Config") or {}).get("Labels") or {}
    return ContainerState(
        id=str(inspected.get("Id", "")),
        status=str(state.get("Status", "")),
        pid=int(state.get("Pid") or 0),
        exit_code=int(state.get("ExitCode") or 0),
        error=str(state.get("Error") or ""),
        agent=str(labels.get(AGENT, "")),
        home=str(labels.get(HOME, "")),
        version=str(labels.get(VERSION, "")),
        words=str(labels.get(WORDS, "")),
        orders=str(inspected.get("OCIConfigPath") or ""),
        image=str(inspected.get("ImageName") or ""),
        unit=str(labels.get("PODMAN_SYSTEMD_UNIT", "")),
    )


def differences(sealed: Sealing, orders: dict[str, Any], profile: dict[str, Any]) -> list[str]:
    """Each point in which the container will not be what was asked for; nothing when it will.

    `profile` is the seccomp profile, as it stands in its file."""
    process, linux = orders.get("process") or {}, orders.get("linux") or {}
    compared = [*_plain(sealed, orders, process, linux, profile), *_limits(sealed, process, linux)]
    return [
        *(
            f"{what} is {_shown(found)}; expected {_shown(wanted)}"
            for what, found, wanted in compared
            if found != wanted
        ),
        *_namespaces(linux),
        *_mounts(sealed, orders.get("mounts") or []),
        *_added(process, linux, profile),
    ]


Compared = tuple[str, object, object]
"""What it is, how it was found, what was wanted."""


def _plain(
    sealed: Sealing, orders: dict[str, Any], process: dict[str, Any], linux: dict[str, Any], profile: dict[str, Any]
) -> Iterator[Compared]:
    held, user = process.get("capabilities") or {}, process.get("user") or {}
    for kind in ("bounding", "effective", "permitted", "inheritable", "ambient"):
        wanted = {f"CAP_{name}" for name in CAPABILITIES} if kind in ("bounding", "effective", "permitted") else set()
        yield f"the set of {kind} capabilities", set(held.get(kind) or ()), wanted
    yield "no-new-privileges", process.get("noNewPrivileges"), True
    groups = set(user.get("additionalGids") or ()) - {0}
    yield "the user that it runs as", (user.get("uid"), user.get("gid"), *groups), (0, 0)
    default = (linux.get("seccomp") or {}).get("defaultAction")
    yield "what seccomp does by default", default, profile.get("defaultAction")
    yield "whether its root file system is read-only", (orders.get("root") or {}).get("readonly"), True
    yield "what it is started with", tuple(map(str, process.get("args") or ()))[1:], sealed.command


def _limits(sealed: Sealing, process: dict[str, Any], linux: dict[str, Any]) -> Iterator[Compared]:
    limits, resources = sealed.limits, linux.get("resources") or {}
    found = {item["type"]: item["hard"] for item in process.get("rlimits") or ()}
    for name, wanted in {"NOFILE": limits.open_files, "NPROC": limits.processes, "CORE": 0}.items():
        yield f"RLIMIT_{name}", found.get(f"RLIMIT_{name}"), wanted
    for what, kind, limit in (("memory", "memory", limits.memory_bytes), ("processes", "pids", limits.pids)):
        if limit is not None:
            yield f"the limit on its {what}", (resources.get(kind) or {}).get("limit"), limit


def _namespaces(linux: dict[str, Any]) -> Iterator[str]:
    namespaces = {str(item.get("type")): str(item.get("path") or "") for item in linux.get("namespaces") or ()}
    if missing := NAMESPACES - namespaces.keys():
        yield f"it has no {_shown(missing)} namespace of its own"
    for kind, path in namespaces.items():
        if path and kind != "network":  # podman makes that one beforehand
            yield f"its {kind} namespace is another's: {path}"


def _added(process: dict[str, Any], linux: dict[str, Any], profile: dict[str, Any]) -> Iterator[str]:
    """What nobody asked for, and what is laid bare."""
    if more := _allowed_calls(linux.get("seccomp") or {}) - _allowed_calls(profile):
        yield f"seccomp allows {_shown(more)}, which our profile does not"
    if linux.get("devices"):
        yield f"it has devices: {_shown({str(device.get('path')) for device in linux['devices']})}"
    for kind, wanted in (("maskedPaths", MUST_BE_HIDDEN), ("readonlyPaths", MUST_BE_READ_ONLY)):
        if bare := wanted - set(linux.get(kind) or ()):
            yield f"{_shown(bare)} should be in {kind}"
    names = {str(variable).partition("=")[0] for variable in process.get("env") or ()}
    if unknown := names - ENVIRONMENT.keys() - ADDED_BY_PODMAN:
        yield f"its environment holds {_shown(unknown)}, which was not asked for"


def _allowed_calls(profile: dict[str, Any]) -> set[str]:
    rules = [rule for rule in profile.get("syscalls") or () if rule.get("action") != profile.get("defaultAction")]
    return {str(name) for rule in rules for name in rule.get("names") or () if rule["action"] == "SCMP_ACT_ALLOW"}


def _mounts(sealed: Sealing, mounts: list[dict[str, Any]]) -> Iterator[str]:
    asked = dict(_asked(sealed))
    found = {str(mount.get("destination")): mount for mount in mounts}
    for target in sorted(found.keys() - asked.keys() - OF_EVERY_CONTAINER):
        yield f"something is mounted at {target} that was not asked for: {found[target].get('source')}"
    for target, (wanted, options) in asked.items():
        mount = found.get(target)
        if mount is None:
            yield f"nothing is mounted at {target}"
            continue
        source = str(mount.get("source"))
        if not (source == wanted or (wanted[0] == "/" and source.endswith(wanted))):
            yield f"{source} is mounted at {target}; expected {wanted}"
        if lacking := {"nosuid", "nodev", *options} - set(mount.get("options") or ()):
            yield f"{target} is mounted without {_shown(lacking)}"


def _asked(sealed: Sealing) -> Iterator[tuple[str, tuple[str, set[str]]]]:
    """By target, each mount as it must be: its source, or the end of one that podman chooses, and its options."""
    for bind in sealed.binds:
        yield bind.target, (bind.source, {"noexec", "ro" if bind.is_read_only else "rw"})
    for volume in sealed.volumes:
        yield volume.target, (f"/volumes/{volume.name}/_data", {"rw"} | (set() if volume.executable else {"noexec"}))
    for scratch in sealed.scratch:
        how = {f"mode={scratch.mode:04o}", f"size={scratch.bytes}"} | (set() if scratch.executable else {"noexec"})
        yield scratch.target, ("tmpfs", how)
    for secret in sealed.secrets:
        yield secret.target, (f"/secrets/{secret.name}", {"noexec", "ro"})


def _shown(value: object) -> str:
    return (", ".join(sorted(value)) or "none") if isinstance(value, set | frozenset) else str(value)

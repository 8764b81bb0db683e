"""What podman on this machine can do, looked at once, judged as a value.

`look` touches the world, everything else is pure: what is missing, which global options podman needs here, and which
of our limits it can keep."""

from __future__ import annotations

import os
import re
import resource
import shutil
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from host.container.host_networks import networks_of
from host.container.podman import Podman, PodmanError, call, environment

PODMAN_NEEDED = (4, 3)
IDS_NEEDED = 65_536
FILES_NEEDED = 1024
"""Open files and processes that an agent needs at the least."""


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
    runtime_release: str = ""
    """What the runtime says it is; empty when it was not asked."""
    has_runc: bool = False
    cgroups: int = 2
    controllers: frozenset[str] = frozenset()
    """Of cgroups, those that this user may set limits with."""
    driver: str = "overlay"
    """How podman stores images and containers."""
    log_driver: str = "k8s-file"
    selinux: bool = False
    ids: int = IDS_NEEDED
    """How many user ids a container of this user has."""
    first_id: int = 0
    """The host's uid behind the container's uid 1."""
    slirp4netns: str = ""
    pasta: str = ""
    tun: str = ""
    """Why /dev/net/tun cannot be used; empty when it can."""
    is_shared: bool = True
    """Mounts on / are passed on."""
    hard_files: int = 1 << 20
    hard_processes: int = 1 << 20
    mmdebstrap: str = ""
    registries: tuple[str, ...] = ()
    """Where podman looks for an image by its short name."""
    runtime_directory: str = ""
    """Why XDG_RUNTIME_DIR cannot be used; empty when it can."""
    odd_path: str = ""
    """A path in the environment that podman would read as more than one; empty when there is none."""
    networks: tuple[str, ...] = ()
    """The machine's own public ones, which a container would reach as if it stood in them."""
    addresses: str = ""
    """Why they are not known; empty when they are."""
    namespaces: str = ""
    """Why the kernel lets this user make no user namespace; empty when it does."""

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
        """The host's uid of a user in the container. Raises ValueError for one that has none."""
        if not 0 <= inside < self.ids:
            raise ValueError(f"uid {inside} in the container has no uid on the host ({self.ids} are mapped)")
        return self.uid if inside == 0 else self.first_id + inside - 1


class Lack(NamedTuple):
    """Something that this machine lacks, and how to get it."""

    what: str
    remedy: str
    is_fatal: bool = True
    """Without it no container of ours runs."""

    @property
    def text(self) -> str:
        return f"{self.what}: {self.remedy}"


def lacks(machine: Machine) -> Iterator[Lack]:
    """Everything that stands between this user and a sealed container, the first thing to do first."""
    # Each of these makes podman say nothing of the rest.
    blocking = [
        (
            machine.uid == 0 and "you are root, and only the rootless container is sealed (root inside would be root)",
            "run minifram as an ordinary user, or use the process sandbox",
        ),
        (not machine.podman and "podman is not installed", "apt-get install podman uidmap slirp4netns"),
        (machine.odd_path, "set it to another directory, or rename that one"),
        (machine.runtime_directory, "log in as this user itself (not by su), or: loginctl enable-linger"),
    ]
    for what, remedy in blocking:
        if what:
            yield Lack(what, remedy)
            return
    if machine.addresses:
        yield Lack(
            machine.addresses, "apt-get install iproute2; without them the agent could reach this machine by them"
        )
    if machine.namespaces:
        yield Lack(machine.namespaces, "allow user namespaces to ordinary users")
    if machine.refusal:
        yield Lack(f"podman does not work: {machine.refusal}", "fix that first; 'podman info' shows it")
        return
    found, needed = (".".join(map(str, version)) for version in (machine.version, PODMAN_NEEDED))
    if machine.version < PODMAN_NEEDED:
        yield Lack(f"podman is {found}; needed is {needed} or newer", "upgrade it (Debian 12 has 4.3, Debian 13 has 5)")
    if machine.ids < IDS_NEEDED:
        user, ids = machine.user or str(machine.uid), f"100000-{100_000 + IDS_NEEDED - 1}"
        yield Lack(
            f"{user} has {machine.ids} ids for containers; needed are {IDS_NEEDED} (/etc/subuid, /etc/subgid)",
            f"as root: apt-get install uidmap && usermod --add-subuids {ids} --add-subgids {ids} {user}; "
            "then: podman system migrate",
        )
    if machine.cgroups == 1 and machine.runtime != "runc" and not machine.has_runc:
        runtime = machine.runtime or "the runtime"
        yield Lack(f"cgroups are version 1 or hybrid here, and {runtime} refuses that", "apt-get install runc")
    if not machine.network:
        package = "passt" if machine.version >= (5, 0) else "slirp4netns"
        yield Lack("nothing gives a container a network of its own", f"apt-get install {package}")
    if machine.tun:
        yield Lack(machine.tun, "as root: modprobe tun && chmod 666 /dev/net/tun")
    if machine.hard_files < FILES_NEEDED or machine.hard_processes < FILES_NEEDED:
        yield Lack(
            f"your hard limits are {machine.hard_files} open files and {machine.hard_processes} processes; "
            f"an agent needs {FILES_NEEDED} of each",
            "raise them in /etc/security/limits.conf and log in again",
        )
    yield from (Lack(what, remedy, is_fatal=False) for what, remedy in _weaknesses(machine))


def _weaknesses(machine: Machine) -> Iterator[tuple[str, str]]:
    """A container runs with them."""
    if machine.runtime == "runc" and is_known_to_leak(machine.runtime_release):
        yield (
            f"runc is {machine.runtime_release}: releases before {_MENDED_TEXT} can be made to write outside of a "
            "container (CVE-2025-31133, CVE-2025-52565, CVE-2025-52881)",
            "upgrade it, or see whether your distribution has fixed its own",
        )
    if machine.driver == "vfs":
        yield (
            "podman stores with vfs: every container is a whole copy of its image, and starts seconds later",
            'put driver = "overlay" under [storage] in ~/.config/containers/storage.conf before there are images of '
            "yours ('podman system reset' removes them all)",
        )
    if missing := sorted({"memory", "pids"} - machine.controllers):
        yield (
            f"limits on {' and '.join(missing)} cannot be set for your containers (cgroups version {machine.cgroups})",
            "limits on processes and open files hold; for the rest boot with cgroups version 2"
            + ("" if machine.cgroups == 1 else " and delegate them (systemd: Delegate=yes for user@.service)"),
        )
    if not machine.is_shared:
        yield "/ is not a shared mount, podman warns of it", "as root: mount --make-rshared /"


_MENDED = {(1, 2): 8, (1, 3): 3}
"""The first release of each series of runc without those faults (its CHANGELOG, 5 November 2025); newer series have
none, older ones were not mended."""
_MENDED_TEXT = ", ".join(f"{major}.{minor}.{patch}" for (major, minor), patch in _MENDED.items())


def is_known_to_leak(release: str) -> bool:
    """Of runc, by its own words (`1.1.5+ds1`); one that cannot be read is not known to."""
    read = re.match(r"(\d+)\.(\d+)\.(\d+)", release)
    if not read:
        return False
    major, minor, patch = map(int, read.groups())
    return patch < _MENDED[major, minor] if (major, minor) in _MENDED else (major, minor) < min(_MENDED)


def fatal(machine: Machine) -> list[Lack]:
    """What must be there before a container of ours can run; nothing when podman is usable."""
    return [lack for lack in lacks(machine) if lack.is_fatal]


# --- looking -------------------------------------------------------------------------------------


def look(environ: Mapping[str, str], uid: int) -> Machine:
    """This machine, for this user. Starts podman only when there is one and the user is not root."""
    handed = environment(environ)
    program = shutil.which("podman", path=handed["PATH"])
    if not program or uid == 0:
        return Machine(uid, podman=program or "")
    limits = (resource.getrlimit(limit)[1] for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC))
    hard = [1 << 30 if limit == resource.RLIM_INFINITY else limit for limit in limits]
    machine = Machine(
        uid,
        user=handed.get("USER", ""),
        podman=program,
        has_runc=bool(shutil.which("runc", path=handed["PATH"])),
        slirp4netns=shutil.which("slirp4netns", path=handed["PATH"]) or "",
        pasta=shutil.which("pasta", path=handed["PATH"]) or "",
        mmdebstrap=shutil.which("mmdebstrap", path=handed["PATH"]) or "",
        tun=_problem_with_tun(),
        is_shared=_root_is_shared(),
        hard_files=hard[0],
        hard_processes=hard[1],
        runtime_directory=_problem_with_runtime_directory(handed, uid),
        namespaces=_problem_with_namespaces(),
        odd_path=_problem_with_paths(environ),
    )
    if machine.odd_path:
        return machine
    try:
        machine = machine._replace(networks=networks_of(call(("ip", "-json", "address"), handed)))
    except (PodmanError, ValueError) as error:
        machine = machine._replace(addresses=f"this machine's own addresses cannot be learned ({error})")
    try:
        return with_info(machine, Podman(program, handed).json("info", "--format=json"))
    except PodmanError as error:
        unset = not handed.get("XDG_RUNTIME_DIR") and os.path.isdir(f"/run/user/{uid}")
        lost = f"; XDG_RUNTIME_DIR is not set (expected /run/user/{uid})" if unset else ""
        return machine._replace(refusal=(_last_words(error.said) or str(error)) + lost)


def _last_words(said: str) -> str:
    """The last line, without what podman's log puts around it."""
    line = said.splitlines()[-1] if said else ""
    match = re.search(r'level=\w+ msg="(.*)"$', line)
    return match[1].replace('\\"', '"') if match else line.removeprefix("Error: ")


def with_info(machine: Machine, info: dict[str, Any]) -> Machine:
    """`machine` with what `podman info` says; a field that this version of podman lacks stays as it was."""
    host, store = info.get("host") or {}, info.get("store") or {}
    security = host.get("security") or {}
    version = re.match(r"(\d+)\.(\d+)", str((info.get("version") or {}).get("Version", "")))
    runtime = host.get("ociRuntime") or {}
    release = re.search(r"version (\S+)", str(runtime.get("version", "")))
    mapped, groups = ((host.get("idMappings") or {}).get(kind) or [] for kind in ("uidmap", "gidmap"))
    cgroups = 1 if host.get("cgroupVersion") == "v1" else 2
    rootless_limits = frozenset(host.get("cgroupControllers") or ()) if cgroups == 2 else frozenset[str]()
    return machine._replace(
        version=(int(version[1]), int(version[2])) if version else (0, 0),
        runtime=str(runtime.get("name", "")),
        runtime_release=release[1] if release else "",
        cgroups=cgroups,
        controllers=rootless_limits,
        driver=str(store.get("graphDriverName", machine.driver)),
        log_driver="journald" if host.get("logDriver") == "journald" else "k8s-file",
        selinux=bool(security.get("selinuxEnabled")),
        ids=min(_contiguous(mapped), _contiguous(groups or mapped)),
        first_id=next((int(part["host_id"]) for part in mapped if part.get("container_id") == 1), 0),
        slirp4netns=machine.slirp4netns or str((host.get("slirp4netns") or {}).get("executable", "")),
        pasta=machine.pasta or str((host.get("pasta") or {}).get("executable", "")),
        registries=tuple((info.get("registries") or {}).get("search") or ()),
    )


def _contiguous(mapped: list[dict[str, int]]) -> int:
    """How many ids from 0 up are mapped, each range directly behind the one before.

    Only the first range behind uid 0 counts: `Machine.host_uid` reckons with one."""
    sizes = {int(part.get("container_id", -1)): int(part.get("size", 0)) for part in mapped}
    return sizes.get(0, 0) + sizes.get(1, 0)


def _problem_with_tun() -> str:
    path = "/dev/net/tun"
    if not os.path.exists(path):
        return f"{path} is missing, which a container's network needs"
    return "" if os.access(path, os.R_OK | os.W_OK) else f"you may not open {path}, which a container's network needs"


def _problem_with_runtime_directory(environ: Mapping[str, str], uid: int) -> str:
    path = environ.get("XDG_RUNTIME_DIR", "")
    if not path:  # podman finds itself another place
        return ""
    try:
        owner = os.stat(path).st_uid
    except OSError as error:
        return f"XDG_RUNTIME_DIR is {path}, which cannot be used ({error.strerror})"
    return "" if owner == uid else f"XDG_RUNTIME_DIR is {path}, which belongs to uid {owner}, not to you (uid {uid})"


def _problem_with_paths(environ: Mapping[str, str]) -> str:
    """podman reads commas and quotes in the values of its options as the ends of fields, and its storage hands paths on
    to mount(8), which does so too. `:` ends the source of a volume, as the cache is for a build."""
    for variable in ("HOME", *(f"XDG_{name}" for name in ("DATA_HOME", "STATE_HOME", "CONFIG_HOME", "RUNTIME_DIR"))):
        if odd := next((each for each in '",' if each in environ.get(variable, "")), ""):
            return f"{variable} is {environ[variable]!a}, and podman cannot be given a path with {odd} in it"
    cache = environ.get("XDG_CACHE_HOME") or environ.get("HOME", "")
    if odd := next((each for each in '",:' if each in cache), ""):
        return f"XDG_CACHE_HOME or HOME is {cache!a}, and podman cannot be given a path with {odd} in it"
    return ""


def _problem_with_namespaces() -> str:
    for path in ("/proc/sys/kernel/unprivileged_userns_clone", "/proc/sys/user/max_user_namespaces"):
        if _read(path).strip() == "0":
            return f"{path} is 0: ordinary users can make no user namespace, and so no container"
    return ""


def _root_is_shared() -> bool:
    """proc_pid_mountinfo(5): the fifth field is the mount point, optional fields follow the sixth."""
    lines = (line.split() for line in _read("/proc/self/mountinfo").splitlines())
    roots = [fields for fields in lines if len(fields) > 6 and fields[4] == "/"]
    return not roots or any(field.startswith("shared:") for field in roots[-1][6:])


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""

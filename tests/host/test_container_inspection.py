"""The runtime's orders against the sealing: one thing more or less is always found."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from host.container.inspection import differences, state_of
from tests.host.test_container_machine import GOOD
from tests.host.test_container_words import a_sealing

SEALED = a_sealing(GOOD._replace(controllers=frozenset(["memory", "pids"])))
CAPS = [f"CAP_{name}" for name in ("KILL", "NET_ADMIN", "SETGID", "SETPCAP", "SETUID")]
PROFILE: dict[str, Any] = {
    "defaultAction": "SCMP_ACT_ERRNO",
    "syscalls": [{"names": ["read", "write"], "action": "SCMP_ACT_ALLOW"}],
}


def _mount(target: str, source: str, *options: str, kind: str = "bind") -> dict[str, Any]:
    return {"destination": target, "type": kind, "source": source, "options": list(options)}


def orders() -> dict[str, Any]:
    """What podman writes for `SEALED`, shortened."""
    bound = ("nosuid", "nodev", "noexec", "rprivate", "rbind")
    return {
        "process": {
            "user": {"uid": 0, "gid": 0, "additionalGids": [0]},
            "args": ["/opt/minifram/podman/entrypoint", *SEALED.command],
            "env": ["PATH=/bin", "LANG=C.UTF-8", "HOME=/root", "HOSTNAME=minifram"],
            "capabilities": {kind: list(CAPS) for kind in ("bounding", "effective", "permitted")},
            "rlimits": [
                {"type": "RLIMIT_NOFILE", "hard": 16384, "soft": 16384},
                {"type": "RLIMIT_NPROC", "hard": 1280, "soft": 1280},
                {"type": "RLIMIT_CORE", "hard": 0, "soft": 0},
            ],
            "noNewPrivileges": True,
        },
        "root": {"path": "/merged", "readonly": True},
        "mounts": [
            _mount("/proc", "proc", "nosuid", kind="proc"),
            _mount("/dev", "tmpfs", "nosuid", kind="tmpfs"),
            _mount("/run/secrets", "/userdata/run/secrets", "ro"),
            *(_mount(bind.target, bind.source, "ro" if bind.is_read_only else "rw", *bound) for bind in SEALED.binds),
            _mount("/bot", "/storage/volumes/minifram-blue-bot/_data", "nosuid", "nodev", "rw", "rbind"),
            _mount("/var/lib/minifram", "/storage/volumes/minifram-blue-state/_data", "nosuid", "nodev", "rw"),
            _mount("/mnt/remote", "tmpfs", "nosuid", "nodev", "noexec", "mode=0700", "size=1048576", kind="tmpfs"),
            _mount("/run/minifram", "tmpfs", "nosuid", "nodev", "noexec", "mode=0711", "size=16777216", kind="tmpfs"),
            _mount("/tmp", "tmpfs", "nosuid", "nodev", "mode=1777", "size=536870912", kind="tmpfs"),
            _mount("/var/tmp", "tmpfs", "nosuid", "nodev", "noexec", "mode=1777", "size=67108864", kind="tmpfs"),
            _mount("/examination", "tmpfs", "nosuid", "nodev", "mode=1777", "size=536870912", kind="tmpfs"),
            _mount(
                "/run/minifram/secrets/anthropic_api_key",
                "/userdata/secrets/minifram-blue-anthropic_api_key",
                *("ro", "nosuid", "nodev", "noexec"),
            ),
        ],
        "linux": {
            "resources": {"memory": {"limit": 4 << 30}, "pids": {"limit": 2048}},
            "namespaces": [
                {"type": kind, "path": "/run/netns/n" if kind == "network" else ""}
                for kind in ("pid", "network", "ipc", "uts", "mount", "cgroup", "user")
            ],
            "seccomp": copy.deepcopy(PROFILE),
            "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware", "/proc/acpi"],
            "readonlyPaths": ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus"],
        },
    }


def mount_of(told: dict[str, Any], target: str) -> dict[str, Any]:
    return next(mount for mount in told["mounts"] if mount["destination"] == target)


def namespace_of(told: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(item for item in told["linux"]["namespaces"] if item["type"] == kind)


def test_orders_that_are_as_asked_have_no_difference() -> None:
    """The control of all that follows."""
    assert differences(SEALED, orders(), PROFILE) == []


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "one more capability": (lambda o: o["process"]["capabilities"]["bounding"].append("CAP_SYS_ADMIN"), "SYS_ADMIN"),
    "a capability too few": (lambda o: o["process"]["capabilities"]["effective"].pop(), "effective"),
    "an ambient one": (lambda o: o["process"]["capabilities"].update(ambient=["CAP_KILL"]), "ambient"),
    "new privileges": (lambda o: o["process"].update(noNewPrivileges=False), "no-new-privileges"),
    "another user": (lambda o: o["process"]["user"].update(uid=1), "runs as"),
    "another group": (lambda o: o["process"]["user"].update(additionalGids=[0, 27]), "runs as"),
    "no seccomp": (lambda o: o["linux"].pop("seccomp"), "seccomp"),
    "a call more": (lambda o: o["linux"]["seccomp"]["syscalls"][0]["names"].append("mount"), "allows mount"),
    "a writable root": (lambda o: o["root"].update(readonly=False), "root file system"),
    "the host's network": (lambda o: o["linux"]["namespaces"].remove(namespace_of(o, "network")), "network"),
    "another's processes": (lambda o: namespace_of(o, "pid").update(path="/proc/1/ns/pid"), "pid namespace"),
    "one count of processes with others": (
        lambda o: o["linux"]["namespaces"].remove(namespace_of(o, "user")),
        "no user namespace",
    ),
    "a device": (lambda o: o["linux"].update(devices=[{"path": "/dev/kvm"}]), "/dev/kvm"),
    "a device as a mount": (lambda o: o["mounts"].append(_mount("/dev/kvm", "/dev/kvm")), "/dev/kvm"),
    "keys in sight": (lambda o: o["linux"]["maskedPaths"].remove("/proc/keys"), "/proc/keys"),
    "sysctls": (lambda o: o["linux"]["readonlyPaths"].remove("/proc/sys"), "/proc/sys"),
    "one more mount": (lambda o: o["mounts"].append(_mount("/leak", "/etc")), "/leak"),
    "one mount fewer": (lambda o: o["mounts"].remove(mount_of(o, "/mnt/remote/refs")), "nothing is mounted"),
    "a writable config": (lambda o: mount_of(o, "/mnt/remote/config")["options"].remove("ro"), "config is mounted"),
    "setuid in /bot": (lambda o: mount_of(o, "/bot")["options"].remove("nosuid"), "nosuid"),
    "an open top level": (lambda o: mount_of(o, "/mnt/remote")["options"].remove("mode=0700"), "mode=0700"),
    "another directory": (lambda o: mount_of(o, "/mnt/remote/objects").update(source="/etc"), "/etc is mounted"),
    "another volume": (lambda o: mount_of(o, "/bot").update(source="/storage/volumes/x/_data"), "/x/_data"),
    "another secret": (
        lambda o: mount_of(o, "/run/minifram/secrets/anthropic_api_key").update(source="/etc/shadow"),
        "/etc/shadow",
    ),
    "a variable": (lambda o: o["process"]["env"].append("ANTHROPIC_API_KEY=x"), "ANTHROPIC_API_KEY"),
    "another command": (lambda o: o["process"]["args"].append("--upstream=192.0.2.1"), "started with"),
    "an init before it": (lambda o: o["process"]["args"].insert(0, "/run/podman-init"), "started with"),
    "more files": (lambda o: o["process"]["rlimits"][0].update(hard=1 << 20), "NOFILE"),
    "core dumps": (lambda o: o["process"]["rlimits"].pop(), "CORE"),
    "all memory": (lambda o: o["linux"]["resources"].pop("memory"), "memory"),
    "all processes": (lambda o: o["linux"]["resources"]["pids"].update(limit=-1), "processes"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_difference_is_named(change: str) -> None:
    """One change, one complaint, without the value of any variable."""
    told = orders()
    alter, words = CHANGES[change]
    alter(told)

    found = differences(SEALED, told, PROFILE)

    assert len(found) == 1, found
    assert words in found[0]
    assert "=x" not in found[0]


def test_orders_without_anything_differ_in_everything() -> None:
    """What is not told is not taken for granted."""
    assert len(differences(SEALED, {}, PROFILE)) > 20


def test_a_container_is_seen_with_its_labels() -> None:
    """One without ours is nobody's."""
    told = {
        "Id": "c0ffee",
        "State": {"Status": "exited", "Pid": 0, "ExitCode": 5, "Error": ""},
        "Config": {"Labels": {"minifram.agent": "blue", "minifram.home": "/data/blue"}},
        "OCIConfigPath": "/x/config.json",
    }
    found = state_of(told)

    assert (found.status, found.exit_code, found.agent, found.home, found.runs) == (
        *("exited", 5, "blue", "/data/blue"),
        False,
    )
    assert state_of({"State": {"Status": "running", "Pid": 7}}).runs
    assert state_of({"Config": {"Labels": None}}).agent == ""

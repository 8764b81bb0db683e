"""S14 and S40: sockets of the host's services that a container may have been given by mistake; the network itself."""

from __future__ import annotations

import os
import socket
import stat
import subprocess

from .calls import Attempts, World

ATTEMPTS = Attempts()
_refused = "EPERM"


# S14: sockets

_TELLING = ("DBUS_", "SSH_AUTH_SOCK", "DISPLAY", "WAYLAND_", "NOTIFY_SOCKET", "LISTEN_FDS", "DOCKER_", "CONTAINER_HOST")
_OF_THE_KEEP = "/run/minifram/"


def socket_files() -> list[str]:
    """Every socket that has a name in the filesystem, the keep's own doors aside."""
    found = []
    for folder, folders, names in os.walk("/"):
        if folder == "/":
            folders[:] = [name for name in folders if name not in ("proc", "sys")]
        for name in names:
            path = os.path.join(folder, name)
            if not path.startswith(_OF_THE_KEEP) and stat.S_ISSOCK(os.lstat(path).st_mode):
                found.append(path)
    return found


@ATTEMPTS.add(
    "S14", "a socket's file: podman, docker, dbus, systemd, journald, X, an SSH agent", "none", free=("some",)
)
def _files(world: World) -> str:
    if world.open:
        socket.socket(socket.AF_UNIX).bind("/tmp/podman.sock")
    return "some" if socket_files() else "none"


@ATTEMPTS.add("S14", "abstract sockets", "none", free=("some",))
def _abstract(world: World) -> str:
    mine = socket.socket(socket.AF_UNIX)
    if world.open:
        mine.bind("\0minifram")
    with open("/proc/net/unix") as file:
        return "some" if any(line.split()[-1].startswith("@") for line in file) else "none"


@ATTEMPTS.add("S14", "an environment that names one", "none", free=("some",))
def _named(world: World) -> str:
    if world.open:
        os.environ["NOTIFY_SOCKET"] = "/run/notify"
    return "some" if any(name.startswith(_TELLING) for name in os.environ) else "none"


# S40: the rules and the routes


@ATTEMPTS.add("S40", "the programs nft and ip", "refused")
def _programs(_: World) -> str:
    words = """nft flush ruleset|nft add table inet other|ip link set lo mtu 1500|ip link add d0 type dummy
        |ip address add 10.9.9.9/32 dev lo|ip route add 100.65.0.0/16 dev lo|ip rule add from all lookup main"""
    ended = [subprocess.run(line.split(), capture_output=True).returncode for line in words.split("|")]
    return "refused" if all(ended) else "ok"


for _name, _value in {
    "ipv4/ip_forward": "1",
    "ipv4/conf/all/route_localnet": "1",
    "ipv4/ping_group_range": "0 0",
    "ipv6/conf/all/disable_ipv6": "0",
}.items():

    def _setting(_: World, path: str = f"/proc/sys/net/{_name}", value: str = _value) -> None:
        with open(path, "w") as file:
            file.write(value)

    ATTEMPTS.add("S40", f"sysctl net/{_name}", "EROFS", "EACCES", _refused)(_setting)

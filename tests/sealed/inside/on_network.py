"""S14 and S40: sockets of the host's services that a container may have been given by mistake; the network itself."""

from __future__ import annotations

import os
import socket
import stat
import struct
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

_REQUEST, _ACKNOWLEDGE, _CREATE = 0x1, 0x4, 0x400
_ROUTE, _NETFILTER = 0, 12
_LO = 1


def _message(kind: int, flags: int, body: bytes, sequence: int = 1) -> bytes:
    return struct.pack("IHHII", 16 + len(body), kind, flags | _REQUEST, sequence, 0) + body


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _ask(protocol: int, *messages: bytes) -> None:
    """Send messages to the kernel's network; its first error is raised."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as channel:
        channel.settimeout(5.0)
        channel.bind((0, 0))
        channel.send(b"".join(messages))
        answer = channel.recv(65536)
    kind, code = struct.unpack_from("H", answer, 4)[0], struct.unpack_from("i", answer, 16)[0]
    if kind == 2 and code:
        raise OSError(-code, os.strerror(-code))


def _batch(kind: int, flags: int, body: bytes) -> None:
    """One change of the nftables rules, in the batch that the kernel asks for."""
    netfilter = struct.pack("!BBH", 0, 0, 10)
    _ask(
        _NETFILTER,
        _message(16, 0, netfilter),
        _message(10 << 8 | kind, flags | _ACKNOWLEDGE, body, 2),
        _message(17, 0, netfilter, 3),
    )


def flush_rules() -> None:
    """Every rule that there is, of every family."""
    _batch(2, 0, struct.pack("!BBH", 0, 0, 0))


def add_table(name: bytes = b"minifram\0") -> None:
    """A table of rules that applies to all internet packets."""
    _batch(0, _CREATE, struct.pack("!BBH", 1, 0, 0) + _attribute(1, name))


def add_address() -> None:
    """An address of a private range on the loopback device."""
    address = socket.inet_aton("10.255.255.1")
    body = struct.pack("BBBBI", socket.AF_INET, 32, 0, 0, _LO) + _attribute(2, address) + _attribute(1, address)
    _ask(_ROUTE, _message(20, _ACKNOWLEDGE | _CREATE, body))


ATTEMPTS.add("S40", "nft: flush the ruleset", _refused)(lambda _: flush_rules())
ATTEMPTS.add("S40", "nft: add a table", _refused)(lambda _: add_table())
ATTEMPTS.add("S40", "ip address add", _refused, free=("ok", "EEXIST"))(lambda _: add_address())


@ATTEMPTS.add("S40", "ip route add", _refused)
def _add_route(_: World) -> None:
    body = struct.pack("BBBBBBBBI", socket.AF_INET, 32, 0, 0, 254, 3, 253, 1, 0)
    body += _attribute(1, socket.inet_aton("192.0.2.1")) + _attribute(4, struct.pack("I", _LO))
    _ask(_ROUTE, _message(24, _ACKNOWLEDGE | _CREATE, body))


@ATTEMPTS.add("S40", "ip link set lo mtu 1500", _refused)
def _change_link(_: World) -> None:
    body = struct.pack("BxHiII", socket.AF_UNSPEC, 0, _LO, 0, 0) + _attribute(4, struct.pack("I", 1500))
    _ask(_ROUTE, _message(16, _ACKNOWLEDGE, body))


@ATTEMPTS.add("S40", "ip link add: a bridge", _refused, free=("ok", "EOPNOTSUPP"))
def _add_link(_: World) -> None:
    body = struct.pack("BxHiII", socket.AF_UNSPEC, 0, 0, 0, 0)
    body += _attribute(3, b"minifram\0") + _attribute(18, _attribute(1, b"bridge\0"))
    _ask(_ROUTE, _message(16, _ACKNOWLEDGE | _CREATE, body))


@ATTEMPTS.add("S40", "tc qdisc add", _refused, free=("ok", "EOPNOTSUPP", "ENOENT"))
def _add_discipline(_: World) -> None:
    body = struct.pack("BxxxiIII", socket.AF_UNSPEC, _LO, 0, 0xFFFF_FFFF, 0) + _attribute(1, b"noqueue\0")
    _ask(_ROUTE, _message(36, _ACKNOWLEDGE | _CREATE, body))


@ATTEMPTS.add("S40", "the programs nft and ip", "refused")
def _programs(_: World) -> str:
    words = ["nft flush ruleset", "ip link set lo mtu 1500", "ip rule add from all lookup main"]
    ended = [subprocess.run(line.split(), capture_output=True).returncode for line in words]
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

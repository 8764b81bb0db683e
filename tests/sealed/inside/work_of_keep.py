"""What the keep does before and while the agent lives, as uid 0."""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import signal
import socket
import struct
import subprocess
import tempfile
from pathlib import Path

from .work_parts import Work, in_child_alone, register, shell

SEAL: dict[str, Work] = {}

_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(*words: int) -> int:
    result = int(_libc.prctl(*(ctypes.c_ulong(word) for word in words)))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl {words}: {os.strerror(code)}")
    return result


RULES = """
table inet minifram_trial {
  counter refused { }
  chain output {
    type filter hook output priority 0; policy accept;
    ip saddr 127.0.0.1 ip daddr 10.255.255.254 meta skuid 0 counter name refused reject with icmp type admin-prohibited
  }
}
"""


@register(SEAL, "ip: an address and a route on the loopback device")
def _ip() -> None:
    shell("ip link set lo up; ip address add 10.255.255.254/32 dev lo; ip address show dev lo >/dev/null")
    shell("ip route replace local 127.0.0.1 dev lo table local src 127.0.0.1 quickack 1")
    shell("ip route show table all >/dev/null")


@register(SEAL, "nft: load rules from a file, list them, delete them; a rejected connection says so")
def _nft() -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".nft") as file:
        file.write(RULES)
        file.flush()
        shell(f"nft -f {file.name}")
    with socket.socket() as client:
        client.settimeout(5)
        client.bind(("127.0.0.1", 0))
        code = client.connect_ex(("10.255.255.254", 9))
    if code not in (113, 13):  # EHOSTUNREACH, EACCES; without the rule it is ECONNREFUSED
        raise RuntimeError(f"the canary answered {os.strerror(code)}")
    if "packets 1" not in shell("nft list counters table inet minifram_trial"):
        raise RuntimeError("the rule counted nothing")
    shell("nft delete table inet minifram_trial")


@register(SEAL, "prctl: secure bits, a smaller bounding set, no new privileges")
def _capabilities() -> None:
    def act() -> None:
        _prctl(28, 0b101111)  # PR_SET_SECUREBITS: root has no powers by being root
        for capability in (8, 12):  # SETPCAP, NET_ADMIN
            _prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
        _prctl(38, 1, 0, 0, 0)

    in_child_alone(act)


@register(SEAL, "setpriv: become another user without capabilities")
def _setpriv() -> None:
    words = "setpriv --reuid=990 --regid=990 --clear-groups --bounding-set=-all --inh-caps=-all"
    if "CapBnd:\t0000000000000000" not in shell(f"{words} cat /proc/self/status"):
        raise RuntimeError("a capability is left")


@register(SEAL, "setresuid, setgroups, capset by hand")
def _become() -> None:
    def act() -> None:
        os.setgroups([])
        os.setresgid(1000, 1000, 1000)
        os.setresuid(1000, 1000, 1000)
        header, data = struct.pack("Ii", 0x20080522, 0), bytes(24)
        if _libc.capset(header, data):
            raise OSError(ctypes.get_errno(), "capset")

    in_child_alone(act)


@register(SEAL, "setfsuid, setfsgid")
def _filesystem_user() -> None:
    def act() -> None:
        _libc.setfsgid(1000)
        _libc.setfsuid(1000)
        if _libc.setfsuid(-1) != 1000:
            raise RuntimeError("setfsuid had no effect")

    in_child_alone(act)


@register(SEAL, "prctl: subreaper, death signal")
def _subreaper() -> None:
    def act() -> None:
        _prctl(36, 1, 0, 0, 0)
        _prctl(1, signal.SIGTERM, 0, 0, 0)

    in_child_alone(act)


@register(SEAL, "pidfd: wait for a death, send a signal")
def _pidfd() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        descriptor = os.pidfd_open(child.pid)
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        if not select.select([descriptor], [], [], 5)[0]:
            raise RuntimeError("no death was seen")
        os.close(descriptor)


@register(SEAL, "inotify")
def _inotify() -> None:
    with tempfile.TemporaryDirectory() as folder:
        watch = _libc.inotify_init1(os.O_CLOEXEC)
        if watch < 0 or _libc.inotify_add_watch(watch, folder.encode(), 0x100) < 0:
            raise OSError(ctypes.get_errno(), "inotify")
        Path(folder, "x").touch()
        if not os.read(watch, 4096):
            raise RuntimeError("no event")
        os.close(watch)


@register(SEAL, "memfd, sealed")
def _memfd() -> None:
    descriptor = os.memfd_create("x", os.MFD_ALLOW_SEALING)
    os.write(descriptor, b"x")
    fcntl.fcntl(descriptor, 1033, 0xF)
    os.close(descriptor)


@register(SEAL, "flock")
def _flock() -> None:
    with tempfile.TemporaryFile() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@register(SEAL, "kill a process of the agent's")
def _kill() -> None:
    with subprocess.Popen(["sleep", "60"], user=1000, group=1000, extra_groups=()) as child:
        child.terminate()
        child.wait(5)

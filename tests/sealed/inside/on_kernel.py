"""S06 to S09: attempts on the kernel, by its interfaces: namespaces, mounts, programs for it, files by handle."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct

from .calls import Attempts, World, syscall

ATTEMPTS = Attempts()
_refused = "EPERM"
_absent = "ENOSYS"
_HIGH = 1 << 32  # the kernel does not look at this half of an int's register


# S06: namespaces

_NAMESPACES = {
    "mount": 0x0002_0000,
    "cgroup": 0x0200_0000,
    "UTS": 0x0400_0000,
    "IPC": 0x0800_0000,
    "user": 0x1000_0000,
    "PID": 0x2000_0000,
    "network": 0x4000_0000,
}
_NEWUSER = _NAMESPACES["user"]
_NEWTIME = 0x80


def _cloned(flags: int) -> None:
    if syscall("clone", flags | signal.SIGCHLD, 0, 0, 0, 0) == 0:
        os._exit(0)


for _name, _flag in (_NAMESPACES | {"time": _NEWTIME, "user and network": _NEWUSER | 0x4000_0000}).items():
    ATTEMPTS.call("S06", f"unshare: {_name}", _refused, name="unshare", arguments=(_flag,))
for _name, _flag in (_NAMESPACES | {"user, upper half of the register set": _NEWUSER | _HIGH}).items():
    ATTEMPTS.add("S06", f"clone: {_name}", _refused)(lambda _, flag=_flag: _cloned(flag))  # type: ignore[misc]


@ATTEMPTS.add("S06", "clone3: user", _absent)
def _clone3(_: World) -> None:
    if syscall("clone3", struct.pack("11Q", _NEWUSER, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0), 88) == 0:
        os._exit(0)


@ATTEMPTS.add("S06", "clone3: a plain process", _absent)
def _plain_clone3(_: World) -> None:
    if syscall("clone3", struct.pack("11Q", 0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0), 88) == 0:
        os._exit(0)


@ATTEMPTS.add("S06", "setns: a namespace's file", _refused)
def _setns(_: World) -> None:
    syscall("setns", os.open("/proc/self/ns/uts", os.O_RDONLY), 0)


@ATTEMPTS.add("S06", "setns: a process", _refused)
def _setns_process(_: World) -> None:
    syscall("setns", os.pidfd_open(os.getpid()), _NAMESPACES["UTS"])


# S07: mounts

_MS_REMOUNT, _MS_BIND, _MNT_DETACH = 32, 4096, 2
_AT_FDCWD = -100


@ATTEMPTS.add("S07", "mount: tmpfs", _refused)
def _mount(_: World) -> None:
    syscall("mount", b"none", b"/mnt", b"tmpfs", 0, 0)


@ATTEMPTS.add("S07", "mount: bind", _refused)
def _bind(_: World) -> None:
    syscall("mount", b"/proc", b"/mnt", b"", _MS_BIND, 0)


@ATTEMPTS.add("S07", "mount: / writable again", _refused)
def _remount(_: World) -> None:
    syscall("mount", b"none", b"/", b"", _MS_REMOUNT | _MS_BIND, 0)


@ATTEMPTS.add("S07", "umount2", _refused)
def _umount(world: World) -> None:
    if world.open:
        _mount(world)
    syscall("umount2", b"/mnt", _MNT_DETACH)


@ATTEMPTS.add("S07", "fsopen, fsconfig, fsmount, move_mount", _refused)
def _new_mount(_: World) -> None:
    context = syscall("fsopen", b"tmpfs", 0)
    syscall("fsconfig", context, 6, 0, 0, 0)
    mounted = syscall("fsmount", context, 0, 0)
    syscall("move_mount", mounted, b"", _AT_FDCWD, b"/mnt", 4)


ATTEMPTS.call("S07", "fsconfig", _refused, name="fsconfig", arguments=(-1, 6, 0, 0, 0), free=("EBADF", "EINVAL"))
ATTEMPTS.call("S07", "fsmount", _refused, name="fsmount", arguments=(-1, 0, 0), free=("EBADF",))
ATTEMPTS.call("S07", "fspick", _refused, name="fspick", arguments=(_AT_FDCWD, b"/", 0))
ATTEMPTS.call(
    "S07",
    "move_mount",
    _refused,
    name="move_mount",
    arguments=(_AT_FDCWD, b"/x", _AT_FDCWD, b"/y", 0),
    free=("ENOENT",),
)
ATTEMPTS.call("S07", "open_tree: clone", _refused, name="open_tree", arguments=(_AT_FDCWD, b"/", 1))
ATTEMPTS.call("S07", "open_tree", _refused, name="open_tree", arguments=(_AT_FDCWD, b"/", 0))


@ATTEMPTS.add("S07", "mount_setattr: / writable again", _refused)
def _attributes(_: World) -> None:
    syscall("mount_setattr", _AT_FDCWD, b"/", 0, struct.pack("4Q", 0, 1, 0, 0), 32)


ATTEMPTS.call("S07", "chroot", _refused, name="chroot", arguments=(b"/tmp",))


@ATTEMPTS.add("S07", "pivot_root", _refused)
def _pivot(world: World) -> None:
    if world.open:
        syscall("unshare", _NAMESPACES["mount"])
        syscall("mount", b"none", b"/mnt", b"tmpfs", 0, 0)
        os.chdir("/mnt")
    syscall("pivot_root", b".", b".")


# S08: large interfaces of the kernel


def _pack_perf_event() -> bytes:
    disabled, exclude_kernel, exclude_hypervisor = 1 << 0, 1 << 5, 1 << 6
    return struct.pack("IIQQQQQ", 1, 64, 0, 0, 0, 0, disabled | exclude_kernel | exclude_hypervisor).ljust(64, b"\0")


_NOWHERE: tuple[str, ...] = ()  # refused to a rootless container's root too
for _name, _arguments, _free in (
    ("bpf", (0, struct.pack("IIII", 2, 4, 4, 1).ljust(48, b"\0"), 48), _NOWHERE),
    ("perf_event_open", (_pack_perf_event(), 0, -1, -1, 0), ("ok", "ENOENT", "EACCES")),
    ("io_uring_setup", (4, bytes(120)), ("ok",)),
    ("userfaultfd", (1,), ("ok",)),
    ("keyctl", (0, -2, 1), ("ok",)),
    ("add_key", (b"user", b"minifram", b"x", 1, -2), ("ok",)),
    ("request_key", (b"user", b"minifram", 0, 0), ("ENOKEY",)),
    ("kexec_load", (0, 0, 0, 0), _NOWHERE),
    ("kexec_file_load", (-1, -1, 0, 0, 0), _NOWHERE),
    ("init_module", (bytes(8), 8, b""), _NOWHERE),
    ("finit_module", (-1, b"", 0), _NOWHERE),
    ("delete_module", (b"minifram", 0), _NOWHERE),
    ("fanotify_init", (0x200, 0), ("ok",)),
    ("vmsplice", (1, 0, 0, 0), ("ok",)),
    ("reboot", (0, 0, 0, 0), ("EINVAL",)),
    ("swapon", (b"/nowhere", 0), _NOWHERE),
    ("acct", (b"/nowhere",), _NOWHERE),
    ("quotactl", (0x80000500, 0, 0, 0), _NOWHERE),
    ("settimeofday", (struct.pack("qq", 0, 0), 0), _NOWHERE),
    ("clock_settime", (0, struct.pack("qq", 0, 0)), _NOWHERE),
    ("adjtimex", (bytes(208),), ("ok",)),
    ("sethostname", (b"other", 5), ("ok",)),
    ("syslog", (10, 0, 0), ("ok", _refused)),
):
    ATTEMPTS.call("S08", _name, _refused, name=_name, arguments=_arguments, free=_free)
if platform.machine() == "x86_64":
    ATTEMPTS.call("S08", "modify_ldt", _refused, name="modify_ldt", arguments=(0, bytes(16), 16))
    ATTEMPTS.call("S08", "iopl", _refused, name="iopl", arguments=(3,), free=_NOWHERE)
    ATTEMPTS.call("S08", "ioperm", _refused, name="ioperm", arguments=(0x80, 1, 1), free=_NOWHERE)
for _name, _arguments, _free in (
    ("packet", (17, 3, 0), ("ok",)),
    ("packet, the old way", (2, 10, 0), ("ok",)),
    ("raw, internet", (2, 3, 1), ("ok",)),
    ("raw, internet 6", (10, 3, 58), ("ok",)),
    ("SCTP", (2, 1, 132), ("ok", "EPROTONOSUPPORT")),
    ("DCCP", (2, 6, 33), ("ok", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT")),
    ("UDP-Lite", (2, 2, 136), ("ok", "EPROTONOSUPPORT")),
    ("key management", (15, 3, 2), ("ok", "EAFNOSUPPORT")),
    ("Bluetooth", (31, 3, 1), ("ok", "EAFNOSUPPORT", "EPROTONOSUPPORT")),
    ("CAN", (29, 3, 1), ("ok", "EAFNOSUPPORT", "EPROTONOSUPPORT")),
    ("TIPC", (30, 1, 0), ("ok", "EAFNOSUPPORT")),
    ("the kernel's ciphers", (38, 5, 0), ("ok", "EAFNOSUPPORT")),
    ("virtual machines", (40, 1, 0), ("ok", "EAFNOSUPPORT")),
    ("XDP", (44, 3, 0), ("ok", "EAFNOSUPPORT")),
    ("SMC", (43, 1, 0), ("ok", "EAFNOSUPPORT")),
    ("netlink: socket diagnosis", (16, 3, 4), ("ok",)),
    ("netlink: audit", (16, 3, 9), ("ok", "EPROTONOSUPPORT")),
    ("netlink: generic", (16, 3, 16), ("ok",)),
    ("netlink: ciphers", (16, 3, 21), ("ok", "EPROTONOSUPPORT")),
):
    ATTEMPTS.call("S08", f"socket: {_name}", _refused, name="socket", arguments=_arguments, free=_free)


# S09: files by handle

_ROOT_OF_DISK = struct.pack("IiII", 8, 1, 2, 0)  # inode 2 of whatever filesystem it is


@ATTEMPTS.add("S09", "name_to_handle_at", _refused)
def _handle(_: World) -> None:
    handle = ctypes.create_string_buffer(struct.pack("Ii", 120, 0), 128)
    syscall("name_to_handle_at", _AT_FDCWD, b"/dev/shm", handle, ctypes.byref(ctypes.c_int()), 0)


@ATTEMPTS.add("S09", "open_by_handle_at: the root of the disk (shocker)", _refused, free=_NOWHERE)
def _by_handle(_: World) -> None:
    syscall("open_by_handle_at", os.open("/", os.O_RDONLY), _ROOT_OF_DISK, os.O_RDONLY)

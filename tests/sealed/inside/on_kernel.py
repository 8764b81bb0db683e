"""S06, S08, S10 and S11: calls that the filter lets through with some arguments, other doors to the same kernel,
terminals, devices. Which arguments those are is judged by the profile (`tests/sealed/test_profile.py`); calls that it
never lets through are made by their numbers (`inside.numbers`)."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import platform
import pty
import signal
import stat
import struct
import termios

from .calls import Attempts, World, numbered, syscall

ATTEMPTS = Attempts()
_refused = "EPERM"
_absent = "ENOSYS"
_HIGH = 1 << 32  # the kernel does not look at this half of an int's register
_NOWHERE: tuple[str, ...] = ()  # refused to a rootless container's root too
_AT_FDCWD = -100
_NEWUSER = 0x1000_0000


def _cloned(flags: int) -> None:
    if syscall("clone", flags | signal.SIGCHLD, 0, 0, 0, 0) == 0:
        os._exit(0)


ATTEMPTS.add("S06", "clone: user", _refused)(lambda _: _cloned(_NEWUSER))
ATTEMPTS.add("S06", "clone: user, upper half of the register set", _refused)(lambda _: _cloned(_NEWUSER | _HIGH))
for _name, _arguments in (("packet", (17, 3, 0)), ("raw, internet 6", (10, 3, 58))):
    ATTEMPTS.add("S08", f"socket: {_name}", _refused)(
        lambda _, arguments=_arguments: str(syscall("socket", *arguments)) and None  # type: ignore[misc]
    )


# S10: other doors to the same kernel

_KILLED = "SIGSYS"
_X32 = 0x4000_0000


def _interrupt(number: int, argument: int = 0) -> str:
    """A call through the 32-bit interrupt: mov eax, number; mov ebx, argument; int 0x80; ret."""
    code = b"\x53\xb8" + struct.pack("<I", number) + b"\xbb" + struct.pack("<I", argument) + b"\xcd\x80\x5b\xc3"
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    result = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    return "ok" if result >= 0 else f"error {-result}"


if platform.machine() == "x86_64":
    _no_32 = ("ok", "SIGSEGV")  # a kernel may be built, or started, without
    ATTEMPTS.add("S10", "int 0x80: getpid", _KILLED, free=_no_32)(lambda _: _interrupt(20))
    ATTEMPTS.add("S10", "int 0x80: unshare", _KILLED, free=_no_32)(lambda _: _interrupt(310, _NEWUSER))
    ATTEMPTS.add("S10", "x32: getpid", _KILLED, free=("ok", _absent))(lambda _: str(numbered(_X32 + 39)) and None)
    ATTEMPTS.add("S10", "x32: unshare", _KILLED, free=("ok", _absent))(
        lambda _: str(numbered(_X32 + 272, _NEWUSER)) and None
    )
for _name, _persona in (
    ("read implies execute", 0x0040_0000),
    ("Linux in 32 bits", 8),
    ("no random addresses", 0x0004_0000),
):
    ATTEMPTS.add("S10", f"personality: {_name}", _refused)(
        lambda _, persona=_persona: str(syscall("personality", persona)) and None  # type: ignore[misc]
    )


# S11: devices and terminals


def _terminal(request: int, argument: bytes) -> None:
    os.setsid()
    _, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    syscall("ioctl", terminal, request, argument)


_TIOCSTI, _TIOCLINUX, _TIOCSETD = 0x5412, 0x541C, 0x5423
for _name, _request, _free in (
    ("TIOCSTI: type into a terminal", _TIOCSTI, ("ok", "EIO")),
    ("TIOCSTI, upper half of the register set", _TIOCSTI | _HIGH, ("ok", "EIO")),
    ("TIOCLINUX: paste into a console", _TIOCLINUX, ("ENOTTY", "EINVAL")),
    ("TIOCSETD: load a line discipline", _TIOCSETD, ("ok",)),
):
    ATTEMPTS.add("S11", _name, _refused, free=_free)(
        lambda _, request=_request: _terminal(request, bytes(8))  # type: ignore[misc]
    )


def _make_node(path: str, mode: int, device: int) -> None:
    try:
        syscall("mknodat", _AT_FDCWD, path.encode(), mode, device)
    finally:
        if os.path.lexists(path):
            os.unlink(path)


for _name, _mode, _device in (
    ("the memory", stat.S_IFCHR | 0o666, os.makedev(1, 1)),
    ("a disk", stat.S_IFBLK | 0o666, os.makedev(8, 0)),
    ("a disk, upper half of the register set", _HIGH | stat.S_IFBLK | 0o666, os.makedev(8, 0)),
):
    ATTEMPTS.add("S11", f"mknod: {_name}", _refused, free=_NOWHERE)(
        lambda _, mode=_mode, device=_device: _make_node("/tmp/node", mode, device)  # type: ignore[misc]
    )
ATTEMPTS.add("S11", "mknod: a whiteout of overlayfs", _refused)(
    lambda _: _make_node("/dev/shm/node", stat.S_IFCHR, os.makedev(0, 0))
)

EXPECTED_DEVICES = {
    *("null", "zero", "full", "random", "urandom", "tty", "console"),
    *("ptmx", "pts", "shm", "mqueue", "fd", "core", "stdin", "stdout", "stderr"),
}


@ATTEMPTS.add("S11", "devices in /dev besides the usual ten", "none", free=("some",))
def _devices(_: World) -> str:
    """mem, kmsg, fuse, net/tun, kvm, disks ..."""
    return "some" if set(os.listdir("/dev")) - EXPECTED_DEVICES else "none"

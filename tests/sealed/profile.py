"""The seccomp profile as these tests look at it, and what it refuses on purpose."""

from __future__ import annotations

import ctypes
import functools
import json
from pathlib import Path
from typing import Any

TEXT = (Path(__file__).parents[2] / "podman/seccomp.json").read_text()
PROFILE: dict[str, Any] = json.loads(TEXT)
RULES: list[dict[str, Any]] = PROFILE["syscalls"]

# Refused with EPERM because nothing allows them: the tables of this profile decide about every call, in words.
REFUSED = {
    "a namespace of one's own makes its owner root over much of the kernel": "unshare setns",
    "mounting, and leaving the root": """
        mount umount2 pivot_root chroot fsopen fsconfig fsmount fspick move_mount open_tree mount_setattr""",
    "programs for the kernel, and its largest interfaces": """
        bpf perf_event_open io_uring_setup io_uring_enter io_uring_register userfaultfd""",
    "the key rings, which no namespace parts": "add_key request_key keyctl",
    "another kernel, or more of this one": """
        kexec_load kexec_file_load init_module finit_module delete_module create_module get_kernel_syms query_module
        reboot""",
    "files by handle, past every directory's rights": "name_to_handle_at open_by_handle_at",
    "looking into other processes: debuggers do not work in the container": """
        ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp process_madvise process_mrelease""",
    "pages that two processes hold at once": "vmsplice remap_file_pages",
    "listening to a whole filesystem": "fanotify_init fanotify_mark",
    "ports and segments of the processor": "iopl ioperm modify_ldt set_thread_area get_thread_area",
    "the machine's own affairs": """
        syslog acct quotactl quotactl_fd swapon swapoff sethostname setdomainname vhangup settimeofday clock_settime
        adjtimex clock_adjtime""",
    "long dead": """
        uselib ustat sysfs _sysctl nfsservctl getpmsg putpmsg afs_syscall tuxcall security vserver lookup_dcookie
        epoll_ctl_old epoll_wait_old""",
}


def names(allowed: bool, conditional: bool = False) -> list[str]:
    """Of calls that are allowed, whatever their arguments or only with some; or that look absent."""
    action = "SCMP_ACT_ALLOW" if allowed else "SCMP_ACT_ERRNO"
    rules = [rule for rule in RULES if rule["action"] == action and bool(rule["args"]) == conditional]
    return [name for rule in rules for name in rule["names"]]


TERMINAL_REQUESTS = {
    test["valueTwo"]
    for rule in RULES
    if rule["names"] == ["ioctl"]
    for test in rule["args"]
    if test["value"] == 0xFFFF_FFFF
}

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL("libseccomp.so.2")  # podman's runtimes cannot do without it
    library.seccomp_syscall_resolve_num_arch.restype = ctypes.c_void_p
    return library


def number_of(name: str, architecture: str) -> int:
    """Its number in the table that the runtimes use, asked of the library that they load; negative when it has none."""
    return int(_library().seccomp_syscall_resolve_name_arch(ARCHITECTURES[architecture], name.encode()))


def name_of(number: int, architecture: str) -> str | None:
    """Which call has this number there."""
    found = _library().seccomp_syscall_resolve_num_arch(ctypes.c_uint32(ARCHITECTURES[architecture]), number)
    if not found:
        return None
    text = ctypes.string_at(found).decode()
    ctypes.CDLL(None).free(ctypes.c_void_p(found))
    return text

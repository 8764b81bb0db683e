"""The seccomp profile as a value: which calls it names, and what it says to arguments."""

from __future__ import annotations

import ctypes
import errno
import functools
import json
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.sealed.inside.calls import MACHINES, NUMBERS

TEXT = (Path(__file__).parents[2] / "podman/seccomp.json").read_text()
PROFILE: dict[str, Any] = json.loads(TEXT)
RULES: list[dict[str, Any]] = PROFILE["syscalls"]

# Refused with EPERM because nothing allows them: the tables of this profile decide about every call, in words.
WHY_REFUSED = {
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


REGISTERS = st.integers(min_value=0, max_value=2**64 - 1)
INTS = st.integers(min_value=0, max_value=2**32 - 1)
# Newer than a library of Debian 12 knows.
NEWEST = {
    *("mseal", "statmount", "listmount", "lsm_get_self_attr", "lsm_set_self_attr", "lsm_list_modules"),
    *("setxattrat", "getxattrat", "listxattrat", "removexattrat", "open_tree_attr", "file_getattr", "file_setattr"),
}
HIGH = st.integers(min_value=0, max_value=2**32 - 1).map(lambda half: half << 32)


REFUSED = " ".join(WHY_REFUSED.values()).split()
DECIDED = [*names(True), *names(False), *REFUSED]
CONDITIONAL = set(names(True, conditional=True))


def allows(call: str, *arguments: int) -> bool:
    """What the profile says, by the rule for profiles: any rule that fits; the default otherwise."""
    return any(
        call in rule["names"]
        and rule["action"] == "SCMP_ACT_ALLOW"
        and all(arguments[test["index"]] & test["value"] == test["valueTwo"] for test in rule["args"])
        for rule in RULES
    )


def test_what_is_not_named_is_refused() -> None:
    """The default is an error, and no architecture opens a second table of calls."""
    assert (PROFILE["defaultAction"], PROFILE["defaultErrnoRet"]) == ("SCMP_ACT_ERRNO", errno.EPERM)
    assert PROFILE["archMap"] == [
        {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": []},
        {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": []},
    ]


def test_each_call_stands_in_one_table() -> None:
    """Allowed, allowed in cases, absent or refused: never two of them, and none twice."""
    assert sorted([*DECIDED, *CONDITIONAL]) == sorted({*DECIDED, *CONDITIONAL})


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_call_is_decided_upon(architecture: str) -> None:
    """All calls up to the newest that any library of the last years knows are in a table, by choice."""
    of_the_kernel = {name_of(number, architecture) for number in range(451)} - {None}
    assert len(of_the_kernel) > 280
    assert of_the_kernel - {*DECIDED, *CONDITIONAL} <= {"nfsservctl"}


def test_every_name_is_one_of_a_call() -> None:
    """No name is misspelt: a runtime would pass over it without a word. The newest may be unknown to the library."""
    for name in {*DECIDED, *CONDITIONAL} - NEWEST:
        assert max(number_of(name, architecture) for architecture in ARCHITECTURES) >= 0, name


def test_the_attempts_make_the_calls_that_they_name() -> None:
    """The intruder's own table of numbers is right on both architectures."""
    for name, numbers in NUMBERS.items():
        for machine, number in zip(MACHINES, numbers, strict=True):
            assert max(number_of(name, machine), -1) == number, (name, machine)


@pytest.mark.attack("S06")
@given(flags=REGISTERS)
@example(flags=0x11)  # a fork
@example(flags=0x003D0F00)  # a thread
@example(flags=1 << 32 | 0x1000_0011)
def test_clone_makes_no_namespace(flags: int) -> None:
    """Any flag of a new namespace is refused, whatever else is set; nothing else is."""
    assert allows("clone", flags, 0, 0, 0, 0) == (flags & 0x7E02_0000 == 0)


@pytest.mark.attack("S11")
@given(
    family=INTS | st.integers(0, 50),
    kind=INTS | st.integers(0, 10),
    protocol=INTS | st.integers(0, 262),
    high=st.tuples(HIGH, HIGH, HIGH),
)
def test_few_families_of_sockets_are_open(family: int, kind: int, protocol: int, high: tuple[int, int, int]) -> None:
    """Unix, TCP, UDP, ping, and two netlinks. The upper halves of the registers change nothing."""
    match family, kind & 0xF, protocol:
        case (1, _, _) | (2 | 10, 1, 0 | 6) | (2 | 10, 2, 0 | 17) | (2, 2, 1) | (10, 2, 58) | (16, _, 0 | 12):
            expected = True
        case _:
            expected = False
    registers = [low | half for low, half in zip((family, kind, protocol), high, strict=True)]
    assert allows("socket", *registers) == expected


@given(request=INTS | st.integers(0x5400, 0x54FF), high=HIGH)
@example(request=0x5412, high=1 << 32)
@example(request=0x541C, high=0)
@example(request=0x5401, high=0xFFFF_FFFF << 32)
@example(request=0x8004_5430, high=0)
def test_a_terminal_is_asked_for_what_is_listed(request: int, high: int) -> None:
    """Requests of other devices pass, those of terminals by the list, TIOCSTI never."""
    of_a_terminal = request >> 8 & 0xFF == ord("T")
    assert allows("ioctl", 0, request | high, 0) == (not of_a_terminal or request in TERMINAL_REQUESTS)
    assert not {0x5412, 0x541C, 0x5423} & set(TERMINAL_REQUESTS)


@pytest.mark.attack("S11")
@given(mode=INTS, high=HIGH)
def test_no_node_is_a_device(mode: int, high: int) -> None:
    """Files, FIFOs and sockets have no number of a device in them."""
    expected = mode & 0o170000 in (0, 0o100000, 0o010000, 0o140000)
    assert allows("mknodat", 0, 0, mode | high, 0) == allows("mknod", 0, mode | high, 0) == expected


def test_new_calls_look_absent() -> None:
    """A library that meets ENOSYS goes back to the older call; EPERM it would hand on."""
    absent = [rule for rule in RULES if rule["action"] == "SCMP_ACT_ERRNO"]
    assert {rule["errnoRet"] for rule in absent} == {errno.ENOSYS}
    assert "clone3" in set(chain.from_iterable(rule["names"] for rule in absent))

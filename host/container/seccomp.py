"""Which system calls a container may make: the seccomp profile, made from tables that give a reason for each line.

What no table names is refused; a call whose arguments matter is allowed for the arguments in its table alone. The
filter holds for the whole container, the keep's start included. Whether `podman/seccomp.json` equals what this
module gives is checked by a test; `python -m host.container.seccomp` writes it.
"""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROFILE = Path(__file__).parents[2] / "podman/seccomp.json"

# The second column stays empty on purpose: with a sub-architecture, the 32-bit tables of a 64-bit kernel open too.
ARCHITECTURES: dict[str, list[str]] = {"SCMP_ARCH_X86_64": [], "SCMP_ARCH_AARCH64": []}

# Calls that are allowed whatever their arguments are. A name that one of the architectures lacks is no error.
ALLOWED = {
    "files: open, read, write": """
        open openat openat2 creat close close_range read write readv writev pread64 pwrite64 preadv pwritev preadv2
        pwritev2 lseek dup dup2 dup3 fcntl flock truncate ftruncate fallocate fsync fdatasync sync syncfs
        sync_file_range fadvise64 readahead copy_file_range sendfile splice tee memfd_create""",
    "files: names, owners, attributes": """
        stat fstat lstat newfstatat statx access faccessat faccessat2 statfs fstatfs getdents getdents64 getcwd chdir
        fchdir mkdir mkdirat rmdir rename renameat renameat2 link linkat symlink symlinkat unlink unlinkat readlink
        readlinkat umask chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes utimensat futimesat
        getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr setxattr lsetxattr fsetxattr removexattr
        lremovexattr fremovexattr""",
    "waiting: pipes, polls, events, file events": """
        pipe pipe2 poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2
        eventfd eventfd2 signalfd signalfd4 inotify_init inotify_init1 inotify_add_watch inotify_rm_watch""",
    "memory": """
        brk mmap munmap mremap mprotect madvise msync mincore mlock mlock2 munlock mlockall munlockall membarrier mseal
        pkey_alloc pkey_free pkey_mprotect""",
    "processes and threads (clone is below: it can make namespaces)": """
        fork vfork execve execveat exit exit_group wait4 waitid getpid getppid gettid getpgid getpgrp setpgid getsid
        setsid prctl arch_prctl set_tid_address set_robust_list get_robust_list futex futex_waitv rseq restart_syscall
        pidfd_open""",
    "signals: the kernel asks who sends": """
        kill tkill tgkill rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend rt_sigtimedwait
        rt_sigqueueinfo rt_tgsigqueueinfo sigaltstack pause pidfd_send_signal""",
    "users and capabilities: the seal and the launch of the cell give them up with these": """
        getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid setreuid setregid setresuid
        setresgid setgroups setfsuid setfsgid capget capset""",
    "scheduling and limits": """
        sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_setparam sched_getscheduler
        sched_setscheduler sched_getattr sched_setattr sched_get_priority_max sched_get_priority_min
        sched_rr_get_interval getpriority setpriority ioprio_get ioprio_set getrlimit setrlimit prlimit64 getrusage
        times getcpu""",
    "time: reading it, sleeping, timers": """
        clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time getitimer setitimer alarm timer_create
        timer_settime timer_gettime timer_getoverrun timer_delete timerfd_create timerfd_settime timerfd_gettime""",
    "sockets that are open (making one is below)": """
        bind connect listen accept accept4 getsockname getpeername getsockopt setsockopt sendto recvfrom sendmsg
        recvmsg sendmmsg recvmmsg shutdown""",
    "messages between processes, in an IPC namespace of the container's own": """
        shmget shmat shmctl shmdt semget semop semctl semtimedop msgget msgsnd msgrcv msgctl mq_open mq_unlink
        mq_timedsend mq_timedreceive mq_notify mq_getsetattr""",
    "facts about the machine, chance": "uname sysinfo getrandom",
    "a process that locks itself in further": """
        seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self""",
}

# Refused, with the answer of a kernel that lacks the call: programs then do without it, which EPERM keeps them from.
ABSENT = {
    "its flags lie in memory, where no filter sees them; every libc then uses clone": "clone3",
    "where memory lies on big machines; numerical libraries ask first": """
        get_mempolicy set_mempolicy set_mempolicy_home_node mbind migrate_pages move_pages""",
    "the old asynchronous I/O: it counts against one limit for the whole machine": """
        io_setup io_destroy io_submit io_getevents io_cancel io_pgetevents""",
    "newer than this list; libraries try them and go back to the older ones": """
        cachestat memfd_secret map_shadow_stack futex_wake futex_wait futex_requeue statmount listmount
        lsm_get_self_attr lsm_set_self_attr lsm_list_modules setxattrat getxattrat listxattrat removexattrat
        open_tree_attr file_getattr file_setattr""",
}

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


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a call, of which the bits in `mask` must be those of `value`.

    The kernel reads an int from the lower half of a register; so does this, or the upper half would be a way round.
    """

    index: int
    value: int
    mask: int = 0xFFFF_FFFF

    def rule(self) -> dict[str, Any]:
        return {"index": self.index, "value": self.mask, "valueTwo": self.value, "op": "SCMP_CMP_MASKED_EQ"}


@dataclass(frozen=True, slots=True)
class Case:
    """A call that is allowed when all these arguments are so."""

    call: str
    why: str
    arguments: tuple[Argument, ...]


# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. (NEWTIME has no bit in clone.)
NEW_NAMESPACES = 0x0002_0000 | 0x0200_0000 | 0x0400_0000 | 0x0800_0000 | 0x1000_0000 | 0x2000_0000 | 0x4000_0000

_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _DGRAM = 1, 2
_SOCKET_TYPE = 0xF  # the rest of that argument is flags
# Protocol 0 is the family's own choice. No raw sockets, and no protocol whose module a mere socket() would load.
_INTERNET = (
    (_INET, _STREAM, (0, 6)),
    (_INET, _DGRAM, (0, 17, 1)),
    (_INET6, _STREAM, (0, 6)),
    (_INET6, _DGRAM, (0, 17, 58)),
)
# Addresses and routes, which name lookups ask for; netfilter, which obeys CAP_NET_ADMIN alone: for the seal.
_NETLINK_ROUTE, _NETLINK_NETFILTER = 0, 12

# mknod makes files, FIFOs and sockets, never devices.
_FILE_TYPE = 0o170000
_PLAIN_TYPES = {"a file": 0, "a regular file": 0o100000, "a FIFO": 0o010000, "a socket": 0o140000}

# Of terminals what shells, editors and multiplexers use. Not there: TIOCSTI and TIOCLINUX, which type for others,
# and TIOCSETD, which loads line disciplines.
_TERMINAL_TYPE = ord("T")
TERMINAL_REQUESTS = {
    0x5401: "TCGETS",
    0x5402: "TCSETS",
    0x5403: "TCSETSW",
    0x5404: "TCSETSF",
    0x5405: "TCGETA",
    0x5406: "TCSETA",
    0x5407: "TCSETAW",
    0x5408: "TCSETAF",
    0x5409: "TCSBRK",
    0x540A: "TCXONC",
    0x540B: "TCFLSH",
    0x540C: "TIOCEXCL",
    0x540D: "TIOCNXCL",
    0x540E: "TIOCSCTTY",
    0x540F: "TIOCGPGRP",
    0x5410: "TIOCSPGRP",
    0x5411: "TIOCOUTQ",
    0x5413: "TIOCGWINSZ",
    0x5414: "TIOCSWINSZ",
    0x541B: "FIONREAD",
    0x5420: "TIOCPKT",
    0x5421: "FIONBIO",
    0x5422: "TIOCNOTTY",
    0x5424: "TIOCGETD",
    0x5425: "TCSBRKP",
    0x5429: "TIOCGSID",
    0x802C542A: "TCGETS2",
    0x402C542B: "TCSETS2",
    0x402C542C: "TCSETSW2",
    0x402C542D: "TCSETSF2",
    0x80045430: "TIOCGPTN",
    0x40045431: "TIOCSPTLCK",
    0x80045438: "TIOCGPKT",
    0x80045439: "TIOCGPTLCK",
    0x80045440: "TIOCGEXCL",
    0x5441: "TIOCGPTPEER",
    0x5450: "FIONCLEX",
    0x5451: "FIOCLEX",
    0x5452: "FIOASYNC",
    0x5460: "FIOQSIZE",
}


def cases() -> Iterator[Case]:
    """The calls that are allowed with these arguments and refused (EPERM) with any other."""
    yield Case("clone", "processes and threads, in the namespaces there are", (Argument(0, 0, NEW_NAMESPACES),))
    for persona, name in ((0, "the usual one"), (0xFFFF_FFFF, "asking which")):
        yield Case("personality", name, (Argument(0, persona),))
    for name, file_type in _PLAIN_TYPES.items():
        yield Case("mknod", name, (Argument(1, file_type, _FILE_TYPE),))
        yield Case("mknodat", name, (Argument(2, file_type, _FILE_TYPE),))
    yield Case("socket", "unix", (Argument(0, _UNIX),))
    yield Case("socketpair", "unix", (Argument(0, _UNIX),))
    for family, kind, protocols in _INTERNET:
        for protocol in protocols:
            words = f"internet: family {family}, type {kind}, protocol {protocol}"
            yield Case("socket", words, (Argument(0, family), Argument(1, kind, _SOCKET_TYPE), Argument(2, protocol)))
    yield Case("socket", "netlink: routes", (Argument(0, _NETLINK), Argument(2, _NETLINK_ROUTE)))
    yield Case("socket", "netlink: netfilter", (Argument(0, _NETLINK), Argument(2, _NETLINK_NETFILTER)))
    # There is no "is not" that looks at the lower half alone: any bit of the type that differs from a terminal's.
    for bit in (1 << n for n in range(8, 16)):
        other = ~(_TERMINAL_TYPE << 8) & bit
        yield Case("ioctl", f"not of a terminal: bit {bit:#06x} differs", (Argument(1, other, bit),))
    for request, name in TERMINAL_REQUESTS.items():
        yield Case("ioctl", name, (Argument(1, request),))


def profile(refusal: int = errno.EPERM) -> dict[str, Any]:
    """The profile in podman's and Kubernetes' form; a refused call fails with the error `refusal`."""
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": refusal,
        "archMap": [{"architecture": name, "subArchitectures": subs} for name, subs in ARCHITECTURES.items()],
        "syscalls": [
            *(
                {"comment": why, "names": names.split(), "action": "SCMP_ACT_ALLOW", "args": []}
                for why, names in ALLOWED.items()
            ),
            *(
                {
                    "comment": case.why,
                    "names": [case.call],
                    "action": "SCMP_ACT_ALLOW",
                    "args": [argument.rule() for argument in case.arguments],
                }
                for case in cases()
            ),
            *(
                {
                    "comment": why,
                    "names": names.split(),
                    "action": "SCMP_ACT_ERRNO",
                    "errnoRet": errno.ENOSYS,
                    "args": [],
                }
                for why, names in ABSENT.items()
            ),
        ],
    }


def text() -> str:
    """What stands in `podman/seccomp.json`."""
    return json.dumps(profile(), indent=1) + "\n"


if __name__ == "__main__":
    PROFILE.write_text(text())
    sys.stdout.write(f"{PROFILE}: {len(profile()['syscalls'])} rules\n")

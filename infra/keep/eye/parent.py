"""The eye's own program: one browser for each connection to its socket, with nothing of Python's but the standard
library. It reads nothing that comes from a page.

A connection gets, in its first bytes, the socket on which the browser's proxy is to be served; all further bytes are
the DevTools protocol, which the browser reads from and writes to the connection itself. When the connection ends, the
browser ends with all that it started, and so the other way round."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile

BROWSER = "/usr/lib/chromium/chromium"
PROXY_PORT = 3128
"""On the loopback device of the browser's own network."""
FILES, CORE = 4096, 0
PIPE = (3, 4)
"""Where the browser reads and writes what DevTools says."""
INSIDE = 1000
"""Who the browser is in its own user namespace: it does not work as root there."""
_CLONE_NEWUSER, _CLONE_NEWPID, _CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
_PR_SET_PDEATHSIG = 1
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
WORDS = (
    "--headless",
    "--remote-debugging-pipe",
    # There is no network but the proxy of each page's context: what it asks for by itself is not worth a try.
    "--proxy-server=http://127.0.0.1:9",
    "--proxy-bypass-list=<-loopback>",
    # The first: else its maker is asked, in the page's name, about each form that the page has.
    "--disable-features=AutofillServerCommunication,SpareRendererForSitePerProcess",
    "--no-startup-window",
    # Nobody sits in front of it.
    "--deny-permission-prompts",
    "--hide-scrollbars",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--renderer-process-limit=6",
    "--js-flags=--max-old-space-size=256",
)
PREFERENCES = '{"alternate_error_pages": {"enabled": false}}'
"""Else it asks its maker whether the network wants a login, whenever a certificate is wrong."""


def serve(listening: socket.socket) -> None:
    """Until it is ended. How many connections there are is the door's to bound, and how many processes, the
    container's."""
    while True:
        wire, _ = listening.accept()
        with wire:
            if not os.fork():
                listening.close()
                sys.exit(one(wire))
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass  # those that have ended


def one(wire: socket.socket) -> int:
    """A browser for this connection, in namespaces of its own, until either ends."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    end_with_parent(signal.SIGTERM)
    alone()
    with tempfile.TemporaryDirectory(prefix="eye-") as place:
        if not (pid := os.fork()):  # the first process of the new namespace: with it all others there end
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            end_with_parent(signal.SIGKILL)
            os._exit(first(wire, place))
        pidfd = os.pidfd_open(pid)
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        poll.register(wire, select.POLLRDHUP)
        with contextlib.suppress(SystemExit):
            poll.poll()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # its files are removed from here on
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def first(wire: socket.socket, place: str) -> int:
    """Offer the proxy's socket, start the browser, and reap what it leaves."""
    loopback_up()
    with socket.create_server(("127.0.0.1", PROXY_PORT), backlog=64) as proxy:
        socket.send_fds(wire, [b"\0"], [proxy.fileno()])
    os.mkdir(f"{place}/Default", 0o700)
    with open(f"{place}/Default/Preferences", "w") as file:
        file.write(PREFERENCES)
    for kind, most in ((resource.RLIMIT_NOFILE, FILES), (resource.RLIMIT_CORE, CORE)):
        resource.setrlimit(kind, (most, most))
    kept = fcntl.fcntl(wire, fcntl.F_DUPFD, 10)
    for number in PIPE:
        os.dup2(kept, number)
    words = [BROWSER, *WORDS, f"--user-data-dir={place}"]
    environ = {"HOME": place, "TMPDIR": place, "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    null = subprocess.DEVNULL
    browser = subprocess.Popen(words, env=environ, stdin=null, stdout=null, stderr=null, pass_fds=PIPE)
    while os.waitpid(-1, 0)[0] != browser.pid:
        pass
    return 0


def alone() -> None:
    """Into namespaces of users, processes and networks of our own: the browser's processes end with the first of them,
    and it reaches no other browser's proxy, and nothing of the machine's."""
    uid, gid = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWPID | _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "the kernel allows no namespaces to this user; a browser needs them")
    for name, words in (("setgroups", "deny"), ("uid_map", f"{INSIDE} {uid} 1"), ("gid_map", f"{INSIDE} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(words)


def loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", _IFF_UP))


def end_with_parent(number: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def main(words: list[str]) -> int:
    """`parent.py PATH` listens at PATH; without it the one connection is its stdin."""
    if not words:
        return one(socket.socket(fileno=sys.stdin.fileno()))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(words[0])
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(words[0])
        os.chmod(words[0], 0o666)  # noqa: S103 - who may reach it is decided by its directory
        listening.listen(16)
        serve(listening)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

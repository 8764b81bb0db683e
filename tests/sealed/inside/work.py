"""Ordinary work that must succeed under the fences, printed as JSON: `[{"work", "result"}, …]`; a result is `ok`. It is
what the filter lets through with some arguments alone, and what needs the container's memory; that every other call is
allowed, absent or refused by choice is read from the profile (`tests/sealed/test_profile.py`)."""

from __future__ import annotations

import fcntl
import functools
import json
import multiprocessing
import os
import pty
import select
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Callable
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

Work = Callable[[], object]
TABLE: dict[str, Work] = {}


def register(what: str) -> Callable[[Work], Work]:
    """Decorate a function with the name of the work that it does."""

    def add(act: Work) -> Work:
        TABLE[what] = act
        return act

    return add


def _here(act: Callable[[Path], object]) -> None:
    with tempfile.TemporaryDirectory(dir=os.environ["HOME"]) as folder:
        act(Path(folder))


@register("git: init, commit, clone, push, gc")
def _git() -> None:
    def act(folder: Path) -> None:
        git = "git -c user.name=x -c user.email=x@example.org"
        line = f"""
            cd {folder}; git init -q -b main --bare remote; git clone -q remote a 2>/dev/null; cd a
            for n in $(seq 20); do echo $n >$n; {git} add .; {git} commit -q -m $n; done
            git push -q origin HEAD:main; git gc -q; cd ..; git clone -q -b main file://$PWD/remote b; git -C b fsck
            git -C b worktree add -q ../c; git -C b log --oneline | wc -l | grep -qx 20"""
        subprocess.run(["bash", "-euo", "pipefail", "-c", line], stdout=subprocess.DEVNULL, timeout=60, check=True)

    _here(act)


@register("a terminal: job control, size, echo")
def _terminal() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execlp("bash", "bash", "-ic", "stty size; stty -echo; sleep 0.01 & fg; tput cols 2>/dev/null; echo done")
    fcntl.ioctl(terminal, 0x5414, struct.pack("HHHH", 24, 80, 0, 0))
    said = b""
    while select.select([terminal], [], [], 5)[0]:
        try:
            said += os.read(terminal, 4096)
        except OSError:  # the other end is closed
            break
    os.close(terminal)
    os.waitpid(pid, 0)
    if b"done" not in said:
        raise RuntimeError(f"the terminal said {said!r}")


def _square(number: int) -> int:
    return number * number


@register("multiprocessing: fork, spawn, forkserver, shared memory, locks")
def _multiprocessing() -> None:
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            if sum(pool.map(_square, range(10))) != 285:
                raise RuntimeError(method)
            pool.close()
            pool.join()
    with multiprocessing.get_context("fork").Manager() as manager:
        manager.dict(x=1)["x"] += 1


@register("a web server on loopback, and who asks it; IPv6; UDP; unix sockets with descriptors")
def _sockets() -> None:
    server = HTTPServer(("127.0.0.1", 0), functools.partial(SimpleHTTPRequestHandler, directory="/etc"))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/hostname", timeout=5) as page:
        page.read()
    server.shutdown()
    server.server_close()
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(family, socket.SOCK_DGRAM) as one:
            try:
                one.bind((host, 0))
            except OSError as error:
                if family == socket.AF_INET6 and error.errno == 99:  # no address: IPv6 is off here
                    continue
                raise
            one.sendto(b"x", one.getsockname())
            one.recv(1)
    left, right = socket.socketpair()
    with left, right, tempfile.TemporaryFile() as file:
        socket.send_fds(left, [b"x"], [file.fileno()])
        _, (received,), _, _ = socket.recv_fds(right, 1, 1)
        os.close(received)


@register("files: FIFOs, plain ones by mknod, a program without a fork")
def _files() -> None:
    def act(folder: Path) -> None:
        os.mkfifo(folder / "fifo")
        os.mknod(folder / "plain")
        os.posix_spawn("/usr/bin/true", ["true"], os.environ)
        os.wait()

    _here(act)


def _result(work: Work) -> str:
    try:
        work()
    except Exception as error:
        return repr(error)
    return "ok"


if __name__ == "__main__":
    json.dump([{"work": what, "result": _result(work)} for what, work in TABLE.items()], sys.stdout)

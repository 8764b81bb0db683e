"""Ordinary work that must succeed under the fences, printed as JSON: `[{"work", "result"}, …]`; a result is `ok`. It is
what an agent's day is made of: its tools, its language, its servers on loopback."""

from __future__ import annotations

import asyncio
import concurrent.futures
import fcntl
import functools
import json
import multiprocessing
import os
import pty
import select
import shutil
import signal
import socket
import sqlite3
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


def shell(line: str) -> str:
    """Run a line of shell; a failure is raised with what it said."""
    ended = subprocess.run(["bash", "-euo", "pipefail", "-c", line], capture_output=True, text=True, timeout=60)
    if ended.returncode:
        raise RuntimeError(f"{line}: {ended.returncode}: {ended.stderr.strip()[-500:]}")
    return ended.stdout


def _here(act: Callable[[Path], object]) -> None:
    with tempfile.TemporaryDirectory(dir=os.environ["HOME"]) as folder:
        act(Path(folder))


@register("git: init, commit, clone, push, gc")
def _git() -> None:
    def act(folder: Path) -> None:
        git = "git -c user.name=x -c user.email=x@example.org"
        shell(f"""
            cd {folder}; git init -q -b main --bare remote; git clone -q remote a 2>/dev/null; cd a
            for n in $(seq 20); do echo $n >$n; {git} add .; {git} commit -q -m $n; done
            git push -q origin HEAD:main; git gc -q; cd ..; git clone -q -b main file://$PWD/remote b; git -C b fsck
            git -C b worktree add -q ../c; git -C b log --oneline | wc -l | grep -qx 20""")

    _here(act)


@register("make -j, tar, xargs -P, sort, find, timeout, flock, nice, taskset, dd, sed -i")
def _tools() -> None:
    def act(folder: Path) -> None:
        (folder / "Makefile").write_text("all: a b c\na b c:\n\tsleep 0.01; echo $@ >$@\n")
        shell(f"""
            cd {folder}; make -s -j3; tar cf x.tar a b c; mkdir y; tar xf x.tar -C y; cmp a y/a
            seq 5000 | xargs -P 4 -n 500 echo >z; sort -R z | sort -u --parallel=2 >/dev/null; sed -i s/1/2/ z
            find . -newer Makefile | wc -l >/dev/null; timeout 5 flock x.lock nice -n 5 taskset 1 true
            dd if=/dev/zero of=d bs=64k count=4 status=none; cp -a y y2; ln a l; mkfifo f
            ps aux >/dev/null; free >/dev/null""")

    _here(act)


@register("bash: jobs, pipes, process substitution, coprocesses, traps")
def _bash() -> None:
    shell("sleep 0.01 & wait $!; diff <(echo 1) <(echo 1); coproc cat; kill $COPROC_PID; trap true USR1; kill -USR1 $$")


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


@register("threads, as many as a server has")
def _threads() -> None:
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        barrier = threading.Barrier(64)
        list(pool.map(lambda _: barrier.wait(10), range(64)))


@register("sqlite: journal and write-ahead log")
def _sqlite() -> None:
    def act(folder: Path) -> None:
        for mode in ("delete", "wal"):
            store = sqlite3.connect(folder / mode)
            store.execute(f"pragma journal_mode={mode}")
            with store:
                store.execute("create table t (x)")
                store.executemany("insert into t values (?)", ((n,) for n in range(1000)))
            store.close()

    _here(act)


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


@register("names: getaddrinfo, interfaces")
def _names() -> None:
    socket.getaddrinfo("127.0.0.1", 80)
    socket.getaddrinfo("localhost", 80)
    if "lo" not in [name for _, name in socket.if_nameindex()]:
        raise RuntimeError("no loopback device")
    shell("ip address >/dev/null; ip route >/dev/null")


@register("asyncio: processes, servers, signals, timers")
def _asyncio() -> None:
    async def act() -> None:
        process = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
        await process.communicate(b"x" * 100_000)
        server = await asyncio.start_unix_server(lambda reader, writer: writer.close(), f"{folder}/s")
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, lambda: None)
        os.kill(os.getpid(), signal.SIGUSR1)
        await asyncio.sleep(0.01)
        server.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(act())


@register("files: copies, links, attributes, FIFOs, locks, sparse files, mmap, timers")
def _files() -> None:
    def act(folder: Path) -> None:
        file = folder / "f"
        file.write_bytes(b"x" * 100_000)
        shutil.copy2(file, folder / "g")
        os.link(file, folder / "h")
        os.mkfifo(folder / "fifo")
        os.mknod(folder / "plain")
        os.utime(file, ns=(1, 1))
        os.chmod(file, 0o600)
        os.replace(file, folder / "i")
        with open(folder / "i", "r+b") as opened:
            fcntl.lockf(opened, fcntl.LOCK_EX)
            os.posix_fallocate(opened.fileno(), 0, 200_000)
            os.truncate(opened.fileno(), 300_000)
            os.fsync(opened.fileno())
        reading, writing = os.open(folder / "g", os.O_RDONLY), os.open(folder / "j", os.O_WRONLY | os.O_CREAT)
        os.copy_file_range(reading, writing, 1000)
        os.sendfile(writing, reading, 0, 1000)
        os.close(reading)
        os.close(writing)
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

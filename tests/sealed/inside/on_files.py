"""S04, S13, S45: attempts on the files of the image, and to run what was written."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable

from .calls import Attempts, World

ATTEMPTS = Attempts()
_BARRED = ("EROFS", "EACCES", "EPERM")


# S04: the image


def _keeps_code() -> Iterable[str]:
    """Files that the keep runs, as far as this image has them."""
    return [
        path for path in ("/opt/minifram/infra/watcher.py", "/opt/minifram/.venv/bin/python") if os.path.exists(path)
    ]


def _write(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY))


def _create(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o644))
    os.unlink(path)


def _replace(path: str) -> None:
    os.rename(path, f"{path}.away")
    os.rename(f"{path}.away", path)


for _path in (
    "/usr/bin/git",
    "/usr/lib/python3.11/os.py",
    "/etc/passwd",
    "/etc/hosts",
    "/etc/hostname",
    *_keeps_code(),
):
    ATTEMPTS.add("S04", f"write {_path}", *_BARRED)(lambda _, path=_path: _write(path))  # type: ignore[misc]
for _path in (
    "/etc/gitconfig",
    "/etc/ld.so.preload",
    "/usr/lib/python3.11/sitecustomize.py",
    "/usr/lib/python3.11/__pycache__/os.cpython-311.pyc.new",
    "/usr/local/bin/git",
    "/opt/new",
    "/root/.bashrc.new",
    "/new",
):
    ATTEMPTS.add("S04", f"create {_path}", *_BARRED, "ENOENT")(lambda _, path=_path: _create(path))  # type: ignore[misc]
ATTEMPTS.add("S04", "rename a program", *_BARRED)(lambda _: _replace("/usr/bin/git"))
ATTEMPTS.add("S04", "chmod a program", *_BARRED)(lambda _: os.chmod("/usr/bin/git", 0o755))
ATTEMPTS.add("S04", "touch a program", *_BARRED)(lambda _: os.utime("/usr/bin/git"))


@ATTEMPTS.add("S04", "a hard link to /etc/shadow", *_BARRED, "EXDEV")
def _hard_link(_: World) -> None:
    os.link("/etc/shadow", "/etc/shadow.link")
    os.unlink("/etc/shadow.link")


# S13: the program that runs this


@ATTEMPTS.add("S13", "write /proc/self/exe", *_BARRED, free=("ETXTBSY",))
def _own_program(_: World) -> None:
    _write("/proc/self/exe")


# S45: run what was written


def _run_from(folder: str) -> None:
    program = f"{folder}/program-{os.getpid()}"
    shutil.copyfile("/usr/bin/true", program)
    try:
        os.chmod(program, 0o755)
        subprocess.run([program], check=True)
    finally:
        os.unlink(program)


for _path in ("/var/tmp", "/dev/shm", "/run"):
    ATTEMPTS.add("S45", f"a program written to {_path}", *_BARRED)(lambda _, path=_path: _run_from(path))  # type: ignore[misc]
ATTEMPTS.add(
    "S45", "a program written to /tmp", "ok", limit="builds run what they make there; /bot is for programs too"
)(lambda _: _run_from("/tmp"))


@ATTEMPTS.add("S45", "a program in memory (memfd)", "ok", limit="no filter sees what a descriptor refers to")
def _run_from_memory(_: World) -> None:
    with open("/usr/bin/true", "rb") as file:
        content = file.read()
    program = os.memfd_create("program")
    os.write(program, content)
    subprocess.run([f"/proc/self/fd/{program}"], check=True, pass_fds=[program])


@ATTEMPTS.add("S45", "a script given to an interpreter", "ok", limit="an agent that may write code may run it")
def _interpret(_: World) -> None:
    subprocess.run(["python3.11", "-c", "pass"], check=True)

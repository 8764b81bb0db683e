"""S04, S13, S45: attempts on the files of the image, and to run what was written."""

from __future__ import annotations

import os
import shutil
import subprocess

from .calls import Attempts, World

ATTEMPTS = Attempts()
_BARRED = ("EROFS", "EACCES", "EPERM")


# S04: the image


def _write(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY))


def _create(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o644))
    os.unlink(path)


def _replace(path: str) -> None:
    os.rename(path, f"{path}.away")
    os.rename(f"{path}.away", path)


for _path in ("/usr/bin/git", "/etc/passwd", "/etc/hosts", "/etc/hostname"):
    ATTEMPTS.add("S04", f"write {_path}", *_BARRED)(lambda _, path=_path: _write(path))  # type: ignore[misc]
for _path in ("/etc/ld.so.preload", "/usr/lib/python3.11/sitecustomize.py", "/usr/local/bin/git", "/opt/new", "/new"):
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

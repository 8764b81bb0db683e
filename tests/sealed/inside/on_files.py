"""S04, S12, S13, S45, S46: attempts on the files of the image, on leaks of the runtime, on what must stay masked."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterable

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


# S12: leaks


@ATTEMPTS.add("S12", "descriptors that the runtime left open", "none", free=("some",), in_place=True)
def _leaks(world: World) -> str:
    plant = os.open("/", os.O_PATH) if world.open else None
    left = [number for number in range(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0]) if _is_open(number)]
    if plant is not None:
        os.close(plant)
    return "some" if left else "none"


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


@ATTEMPTS.add("S12", "a root or working directory outside", "none", free=())
def _outside(_: World) -> str:
    for name in ("root", "cwd"):
        there = os.stat(f"/proc/self/{name}")
        if name == "root" and not os.path.samestat(there, os.stat("/")):
            return "root"
        if os.readlink(f"/proc/self/{name}").startswith("(unreachable)"):
            return name
    return "none"


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


# S46: what stays masked


def _peek(path: str) -> str | None:
    """`empty` for what is covered by nothing: /dev/null, or a directory without entries."""
    if os.path.isdir(path):
        return None if os.listdir(path) else "empty"
    with open(path, "rb", buffering=0) as file:
        return None if file.read(1) else "empty"


_MASKED = ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/acpi", "/sys/firmware", "/sys/dev/block")
_SECRETIVE = ("/proc/kmsg", "/proc/vmallocinfo", "/proc/kpagecount", "/sys/kernel/debug", "/sys/kernel/tracing")
_CONTROLS = (
    "/proc/sysrq-trigger",
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/hostname",
    "/proc/sys/vm/drop_caches",
    "/proc/sys/fs/binfmt_misc/register",
    "/proc/irq/default_smp_affinity",
    "/proc/mtrr",
    "/sys/kernel/uevent_helper",
    "/sys/power/state",
    "/sys/fs/cgroup/cgroup.procs",
    "/sys/fs/cgroup/release_agent",
    "/sys/fs/cgroup/memory/release_agent",
    "/sys/fs/cgroup/memory/cgroup.procs",
)
# In the open container these are closed by what the kernel asks of the machine's own root, or do not exist.
_OPEN_TO_ROOT = ("/proc/keys", "/sys/dev/block")


def _control(path: str) -> tuple[str, ...]:
    return ("ok",) if path in _OPEN_TO_ROOT else ()


def _reading(path: str) -> Callable[[World], str | None]:
    return lambda _: _peek(path)


for _path in (*_MASKED, *_SECRETIVE):
    ATTEMPTS.add("S46", f"read {_path}", "empty", "ENOENT", *_BARRED, free=_control(_path))(_reading(_path))
for _path in _CONTROLS:
    ATTEMPTS.add("S46", f"write {_path}", "ENOENT", *_BARRED, free=_control(_path))(
        lambda _, path=_path: _write(path)  # type: ignore[misc]
    )


@ATTEMPTS.add(
    "S46", "without the label of the security module, where the kernel has one", "labelled", "no module", free=()
)
def _label(_: World) -> str:
    try:
        with open("/proc/self/attr/current") as file:
            label = file.read().strip("\0\n")
    except OSError:
        return "no module"
    return "labelled" if label and not label.startswith(("unconfined", "kernel")) else f"label {label!r}"

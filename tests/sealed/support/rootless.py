"""Rootless podman for tests: an ordinary user of the machine who may run containers.

As root, `prepare` makes what is missing (the user `minifram-test`, its range of uids, the machine's small matters);
as an ordinary user it takes the caller. It never skips: a machine without podman is told so, and the tests fail.
Containers of these tests have no network; who needs one asks for it in so many words.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import pwd
import resource
import secrets
import shutil
import stat
import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.sealed.support import base

USER = "minifram-test"
PYTHON = "/usr/bin/python3.11"
"""Debian's: the one that the tests run with may lie where only its owner can read."""
BASE = base.AGENT.name

Ended = subprocess.CompletedProcess[str]


class Unprepared(Exception):
    """The machine lacks something, and what to do about it."""


@dataclass(frozen=True, slots=True)
class Rootless:
    """An ordinary user who may run containers."""

    name: str
    uid: int
    gid: int
    home: Path
    runtime_dir: Path
    scratch: Path = field(repr=False)  # the user's own, readable for containers; gone after the tests
    programs: Path | None = None
    """A directory whose programs stand before the machine's."""

    def command(self, *words: str | Path) -> list[str]:
        """`podman` with what this machine asks for; cgroups are plain files because the user has no systemd."""
        return ["podman", *_runtime(), "--cgroup-manager", "cgroupfs", *map(str, words)]

    def podman(self, *words: str | Path, check: bool = True, timeout: float = 60.0, stdin: str | None = None) -> Ended:
        """Run podman as this user to its end; with `check`, a failure tells what podman said."""
        return self.run(*self.command(*words), check=check, timeout=timeout, stdin=stdin)

    def run(self, *words: str | Path, check: bool = True, timeout: float = 60.0, stdin: str | None = None) -> Ended:
        """Run any program as this user."""
        argv = [str(word) for word in words]
        with self.popen(*argv) as process:
            try:
                out, err = process.communicate(stdin, timeout)
            except BaseException:
                process.kill()
                raise
        if check and process.returncode:
            raise AssertionError(f"{argv} ended with {process.returncode}: {err.strip()} {out.strip()[-2000:]}")
        return Ended(argv, process.returncode, out, err)

    def popen(self, *words: str | Path) -> subprocess.Popen[str]:
        """Start any program as this user, with pipes on its three standard streams."""
        me = os.geteuid() == self.uid
        return subprocess.Popen(
            [str(word) for word in words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.home,
            env=self.environ,
            user=None if me else self.uid,
            group=None if me else self.gid,
            extra_groups=None if me else (),
        )

    @property
    def environ(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "USER": self.name,
            "LOGNAME": self.name,
            "LANG": "C.UTF-8",
            "GOGC": "800",  # as minifram's own calls of podman have it
            "PATH": f"{self.programs}:{os.environ['PATH']}" if self.programs else os.environ["PATH"],
            "XDG_RUNTIME_DIR": str(self.runtime_dir),
        }

    def put(self, name: str, text: str) -> Path:
        """Write a file that the user and its containers can read (the project itself may lie in a private place)."""
        path, half = self.scratch / name, self.scratch / f"{name}.{secrets.token_hex(4)}"
        half.write_text(text)
        half.chmod(0o644)
        return half.rename(path)

    def directory(self, name: str) -> Path:
        """Make a directory of the user's own."""
        path = self.scratch / name
        path.mkdir()
        os.chown(path, self.uid, self.gid)
        return path

    def once(self, name: str, make: Callable[[], object]) -> None:
        """Call `make`, unless somebody who shares the scratch directory has done so."""
        done = self.scratch / f"{name}.made"
        with self.alone(name):
            if not done.exists():
                make()
                done.touch()

    @contextlib.contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """One at a time of those who share the scratch directory."""
        with _locked(self.scratch / f"{name}.lock"):
            yield

    def base(self) -> str:
        """The name of the image that ours is built on, which holds Debian and its programs. Raises Unprepared."""
        if self.podman("image", "exists", BASE, check=False).returncode:
            raise Unprepared(f"the image {BASE} is not there. Run: python -m tests.sealed.prepare (make test does)")
        return BASE

    def python(self) -> Path:
        """One that this user can run, with the packages that are here already, pip among them."""
        venv = self.scratch / "venv"

        def make() -> None:
            _need(PYTHON, "python3.11")
            subprocess.run([PYTHON, "-I", "-m", "venv", "--without-pip", venv], check=True)
            into = venv / "lib/python3.11/site-packages"
            # Most of the files; no command needs them.
            leave = shutil.ignore_patterns("anthropic", "kubernetes_validate", "mypy", "mypyc")
            # With what was compiled: this user cannot write it there, and would compile it for each command.
            shutil.copytree(sysconfig.get_path("purelib"), into, ignore=leave, dirs_exist_ok=True)
            subprocess.run(["chmod", "-R", "a+rX", venv], check=True)

        self.once("venv", make)
        return venv / "bin/python"


@contextlib.contextmanager
def prepared(run: str = "") -> Iterator[Rootless]:
    """A user who may run containers, with a scratch directory for as long as the tests last. All who name the same
    `run` share it."""
    _need("podman", "podman")
    _need("newuidmap", "uidmap")
    _need(_runtime()[-1], _runtime()[-1])
    if os.geteuid() == 0:
        with _locked(Path("/run/minifram-test.lock")):
            _prepare_machine()
            _prepare_user()
        user = pwd.getpwnam(USER)
        runtime_dir = Path(f"/run/user/{user.pw_uid}")
    else:
        user = pwd.getpwuid(os.geteuid())
        runtime_dir = Path(os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{user.pw_uid}"))
        if not runtime_dir.is_dir():
            raise Unprepared(f"{runtime_dir} is missing: log in as {user.pw_name}, or set XDG_RUNTIME_DIR")
    with _small_stacks(), _scratch(Path(user.pw_dir), run or secrets.token_hex(8)) as scratch:
        scratch.chmod(0o755)
        os.chown(scratch, user.pw_uid, user.pw_gid)
        yield Rootless(user.pw_name, user.pw_uid, user.pw_gid, Path(user.pw_dir), runtime_dir, scratch)


@contextlib.contextmanager
def _scratch(home: Path, run: str) -> Iterator[Path]:
    """Gone when the last who uses it has ended."""
    place = home / f"minifram-test-{run}"
    with open(home / f".{place.name}.lock", "w") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        place.mkdir(exist_ok=True)
        try:
            yield place
        finally:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(place)
                os.unlink(users.name)


def _need(program: str, package: str) -> None:
    if shutil.which(program) is None:
        raise Unprepared(
            f"{program} is not on PATH, and these tests run real containers. "
            f"Have root run: apt-get install -y --no-install-recommends {package}"
        )


@functools.cache
def _runtime() -> tuple[str, str]:
    """crun, podman's own choice, refuses machines whose cgroups are not all of version 2."""
    unified = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    return "--runtime", "crun" if unified and shutil.which("crun") else "runc"


@contextlib.contextmanager
def _small_stacks() -> Iterator[None]:
    """podman has many threads: where addresses are limited (`ulimit -v`), their stacks leave it none to start with."""
    before = resource.getrlimit(resource.RLIMIT_STACK)
    if resource.getrlimit(resource.RLIMIT_AS)[1] != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_STACK, before)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time: workers of one test run would make the same things."""
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _prepare_machine() -> None:
    """What a machine with systemd and udev has anyway, and a bare virtual machine has not."""
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    root = [fields for fields in mounts if fields[4] == "/"][-1]
    if not any(word.startswith("shared:") for word in root[6 : root.index("-")]):
        subprocess.run(["mount", "--make-rshared", "/"], check=True)
    for device in (Path("/dev/net/tun"), Path("/dev/fuse")):
        if device.exists() and not device.stat().st_mode & stat.S_IWOTH:
            device.chmod(0o666)


def _prepare_user() -> None:
    try:
        user = pwd.getpwnam(USER)
    except KeyError:
        for file in ("/etc/subuid", "/etc/subgid"):  # where these are, it gets a range of 65,536 ids for containers
            Path(file).touch()
        subprocess.run(["useradd", "--create-home", "--shell", "/bin/sh", USER], check=True, capture_output=True)
        user = pwd.getpwnam(USER)
    runtime_dir = Path(f"/run/user/{user.pw_uid}")
    if not runtime_dir.is_dir():
        runtime_dir.parent.mkdir(exist_ok=True)
        runtime_dir.mkdir(mode=0o700)
        os.chown(runtime_dir, user.pw_uid, user.pw_gid)
    # Without this, podman may copy the whole image for each container (vfs): 5 s instead of 0.3.
    storage = Path(user.pw_dir, ".config/containers/storage.conf")
    if not storage.exists():
        for directory in (storage.parent.parent, storage.parent):
            directory.mkdir(exist_ok=True)
            os.chown(directory, user.pw_uid, user.pw_gid)
        storage.write_text('[storage]\ndriver = "overlay"\n')

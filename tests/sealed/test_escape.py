"""Ways out of a real rootless container, and what must work all the same. Each attempt is made in a container that is
sealed as `minifram up` seals it, by the agent and, where the line speaks of the container, by the keep's own root; and
in one with no fences, where the very same code must get through."""

from __future__ import annotations

import errno
import json
import platform
import secrets
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from host.container.words import MIB, fences, scratch
from infra.shared.paths import CONTAINER, ROOT
from tests.cell.loop.waiting import wait_for
from tests.host.test_container import words_of
from tests.sealed.inside.attempts import attempts
from tests.sealed.support.rootless import Rootless
from tests.sealed.test_profile import PROFILE, REFUSED, TEXT, names, number_of

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(300)]

PROGRAMS = Path(__file__).parent / "inside"
"""To be read in them, as a package below /probe."""
SHELVES = (
    scratch(CONTAINER.run, 0o711, 16 * MIB),
    scratch("/var/tmp", 0o1777, 16 * MIB),
    scratch("/bot", 0o1777, 256 * MIB, executable=True),  # in the place of the agent's own
)
LIMITS = ("--ulimit=nproc=4096:4096", "--ulimit=nofile=4096:4096")
RUN = ("run", "--rm", "--interactive", "--timeout=120")  # it ends, also when whoever waits for it is killed


class Cages:
    """Containers with and without fences, all of one user."""

    def __init__(self, user: Rootless) -> None:
        self.user = user
        self._probe = [
            f"--volume={user.scratch / PROGRAMS.name}:/probe/{PROGRAMS.name}:ro",
            "--env=MALLOC_ARENA_MAX=2",  # many threads also where addresses are limited (ulimit -v)
            "--env=PYTHONPATH=/probe",
            "--env=PYTHONDONTWRITEBYTECODE=1",
        ]

        def make() -> None:
            shutil.copytree(PROGRAMS, user.scratch / PROGRAMS.name, ignore=shutil.ignore_patterns("__pycache__"))
            user.put("seccomp.json", TEXT)
            user.put("hosts", Path(ROOT, "podman/hosts").read_text())
            # With a refusal that can be told from the kernel's: no call of it fails so.
            user.put("marked.json", json.dumps(PROFILE | {"defaultErrnoRet": errno.EXFULL}))

        user.once("cages", make)

    def sealed(
        self, *command: str, seccomp: str = "seccomp.json", words: Iterable[str] = LIMITS, tmp_bytes: int = 64 * MIB
    ) -> list[str]:
        """Behind `podman`: a container as `up` makes it, of a bare image and with no network; it begins at once.

        The user's own storage of the agent is left out, as what is in it is for others to examine."""
        hosts = f"--volume={self.user.scratch / 'hosts'}:/etc/hosts:ro"  # as the project's image has it
        fenced = (*fences(str(self.user.scratch / seccomp), "none"), *SHELVES)
        tmp = scratch("/tmp", 0o1777, tmp_bytes, executable=True)
        return [*RUN, *fenced, tmp, *self._probe, hosts, *words, self.user.base(), *command]

    def open(self, *command: str) -> list[str]:
        """A container without fences, as far as podman lets an ordinary user have one."""
        writable = ("--tmpfs=/dev/shm:exec", *(f"--tmpfs={path}:exec" for path in ("/tmp", "/var/tmp", "/run")))
        words = ("--privileged", "--network=none", *LIMITS, *writable, *self._probe)
        return [*RUN, *words, self.user.base(), *command]

    def rows(self, words: Sequence[str]) -> Any:
        """What the program in the container prints, which is JSON."""
        return json.loads(self.user.podman(*words, timeout=110.0).stdout)


LINES = [pytest.param(line, marks=pytest.mark.attack(line)) for line in sorted({each.line for each in attempts()})]

Rows = dict[tuple[str, str], str]


class Seen(NamedTuple):
    """What the programs in the containers said."""

    agent: Rows
    keep: Rows
    open: Rows
    work: dict[str, str]
    fared: str


@pytest.fixture(scope="session")
def cages(user: Rootless) -> Cages:
    return Cages(user)


@pytest.fixture(scope="session")
def seen(cages: Cages) -> Seen:
    """What came of all attempts, which are made once: in two containers, one after another."""
    file, python = cages.user.scratch / "seen.json", ("python3.11", "-m")

    def look() -> None:
        words = cages.sealed(*python, "inside.keep"), cages.open(*python, "inside.attempts", "--open")
        file.write_text(json.dumps([cages.rows(each) for each in words]))

    cages.user.once("seen", look)
    sealed, free = json.loads(file.read_text())
    agent, keep, without = (
        {(row["id"], row["attempt"]): row["result"] for row in rows} for rows in (sealed["agent"], sealed["keep"], free)
    )
    return Seen(agent, keep, without, {row["work"]: row["result"] for row in sealed["cell"]}, sealed["fared"])


@pytest.mark.parametrize("line", LINES)
def test_attempts_are_blocked_and_succeed_without_fences(line: str, seen: Seen) -> None:
    """The agent, and the keep's own root, get the expected answer; without fences the same code gets through, or this
    kernel has no such way."""
    tried = [each for each in attempts() if each.line == line]
    assert any(each.free for each in tried)
    for each in tried:
        name = each.line, each.what
        answers = {seen.agent[name], seen.keep.get(name, each.blocked[0])}
        assert answers <= {*each.blocked}, each
        assert not each.free or seen.open[name] in each.free, each


@pytest.mark.attack("S02")
def test_the_keep_is_unhurt(seen: Seen) -> None:
    """After all attempts its processes run, and not one signal has reached them."""
    assert seen.fared == "well"


def test_ordinary_work_is_not_hindered(seen: Seen) -> None:
    """What an agent's day is made of; what the seal does as root, each start of an agent shows."""
    assert seen.work == dict.fromkeys(("terminal", "processes", "sockets", "files"), "ok")


@pytest.mark.attack("S06", "S07", "S08", "S09")
def test_every_call_that_is_not_allowed_is_answered_by_the_filter(cages: Cages) -> None:
    """One by one, by their numbers, and those that no table has yet."""
    machine = platform.machine()
    refused = _numbers(REFUSED, machine)
    absent = _numbers(names(False), machine)
    told = json.dumps(refused | absent | _numbers(["getpid"], machine) | {"a call to come": 700})
    words = cages.sealed("python3.11", "-m", "inside.numbers", seccomp="marked.json")
    answers = json.loads(cages.user.podman(*words, stdin=told).stdout)
    assert {name for name in refused if answers[name] != "EXFULL"} == set()
    assert {name for name in absent if answers[name] != "ENOSYS"} == set()
    assert answers["a call to come"] in ("ENOSYS", "EXFULL")  # runc says that there is none, crun refuses
    assert answers["getpid"] == "ok"


def _numbers(calls: Iterable[str], machine: str) -> dict[str, int]:
    numbers = {name: number_of(name, machine) for name in calls}
    return {name: number for name, number in numbers.items() if number >= 0}


@pytest.mark.fault("F09", "F61")
@pytest.mark.attack("S28", "S29")
def test_the_keep_goes_on_when_the_agent_uses_everything_up(cages: Cages) -> None:
    """Processes, files, inotify, memory of three kinds: each shortage is real, and the agent's alone."""
    limits = ("--sysctl=kernel.shmall=4096", "--ulimit=nproc=256:256", "--ulimit=nofile=1024:1024")
    words = cages.sealed("python3.11", "-m", "inside.exhaustion", words=limits, tmp_bytes=16 * MIB)
    answers = {row["attempt"]: row["result"] for row in cages.rows(words)}
    assert len(answers) == 6
    assert not {what: answer for what, answer in answers.items() if not answer.startswith("the keep goes on")}


LIMIT = 100


def forks(number: int, end: str) -> list[str]:
    return ["sh", "-c", f"n=0; while [ $n -lt {number} ]; do sleep 60 & n=$((n+1)); done; echo $n; {end}"]


def neighbour_forks(user: Rootless, *namespace: str) -> bool:
    """The cell of one container has nearly all the processes that it may have: can that of another start half?"""
    words = ["--network=none", "--user=1000", f"--ulimit=nproc={LIMIT}:{LIMIT}", *namespace]
    greedy = f"greedy-{secrets.token_hex(4)}"
    user.podman("run", "--detach", f"--name={greedy}", *words, user.base(), *forks(LIMIT - 10, "wait"))
    try:
        ready = [str(LIMIT - 10)]
        wait_for(lambda: user.podman("logs", greedy).stdout.split() == ready, "its processes", 60.0)
        modest = user.podman("run", "--rm", *words, user.base(), *forks(LIMIT // 2, "kill -9 -1"), check=False)
        return modest.stdout.split() == [str(LIMIT // 2)]
    finally:
        user.podman("rm", "--force", "--time=0", greedy)


@pytest.mark.attack("S29")
def test_one_agent_s_processes_are_not_counted_for_another(user: Rootless) -> None:
    """RLIMIT_NPROC is counted for each user of a user namespace: the control shares the PM's."""
    own = [word for word in words_of() if word.startswith(("--uidmap", "--gidmap", "--userns"))]
    assert neighbour_forks(user, *own)
    assert not neighbour_forks(user, "--userns=host")

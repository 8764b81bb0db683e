"""Ways out of a real rootless container, tried from inside by the agent's uid, and what must work all the same."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
from pathlib import Path

import pytest

from host.container.words import MIB
from tests.sealed import libseccomp, profile, rows
from tests.sealed.inside.attempts import attempts
from tests.sealed.inside.calls import Attempt
from tests.sealed.rows import Row, Seen
from tests.sealed.support.cages import Cages

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(300)]

ATTEMPTS = [
    pytest.param(each, id=f"{each.line} {each.what}", marks=pytest.mark.attack(each.line)) for each in attempts()
]


def _of(line: str, judged: list[Row]) -> list[Row]:
    return [row for row in judged if row.line == line]


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_an_attempt_is_blocked_and_succeeds_without_fences(attempt: Attempt, seen: Seen) -> None:
    """The agent, and the keep's own root, get the expected answer; without fences the same code gets through."""
    row = rows.judge(attempt, seen)
    assert row.passed, row


def test_there_are_attempts_of_many_kinds(seen: Seen) -> None:
    """And the containers tried each of them."""
    assert len(attempts()) > 150
    assert {(attempt.line, attempt.what) for attempt in attempts()} <= seen.agent.keys()


def test_every_line_has_an_attempt_that_succeeds_where_it_is_allowed(seen: Seen) -> None:
    """Or one that the filter answers, which is shown by the number of its answer."""
    judged = rows.judged(seen)
    for line in {row.line for row in judged}:
        assert [row for row in _of(line, judged) if row.control != "-" or row.held_by == "filter"], line


@pytest.mark.attack("S07")
def test_the_filter_itself_answers(seen: Seen) -> None:
    """Calls that no rootless container's root may make are refused before the kernel looks at them."""
    looks = ("devices in /dev besides the usual ten",)  # a look, not a call
    for row in rows.judged(seen):
        if row.line in rows.FILTERED_LINES and row.attempt not in looks:
            assert row.held_by == "filter", row


@pytest.mark.attack("S02")
def test_the_keep_is_unhurt(seen: Seen) -> None:
    """After all attempts its processes run, and not one signal has reached them."""
    assert seen.fared == "well"


def test_ordinary_work_is_not_hindered(seen: Seen) -> None:
    """What the seal does as root, and what an agent's day is made of."""
    assert len(seen.work) > 20
    assert {what: result for what, result in seen.work.items() if result != "ok"} == {}


@pytest.mark.attack("S08")
def test_every_call_that_is_not_allowed_is_answered_by_the_filter(cages: Cages) -> None:
    """One by one, by their numbers, and those that no table has yet."""
    machine = platform.machine()
    refused = _numbers(" ".join(profile.REFUSED.values()), machine)
    absent = _numbers(" ".join(profile.names(False)), machine)
    told = json.dumps(refused | absent | _numbers("getpid", machine) | {"a call to come": 700})
    words = cages.sealed("python3.11", "-m", "inside.numbers", profile="marked.json")
    answers = json.loads(cages.user.podman(*words, stdin=told).stdout)
    assert {name for name in refused if answers[name] != "EXFULL"} == set()
    assert {name for name in absent if answers[name] != "ENOSYS"} == set()
    assert answers["a call to come"] in ("ENOSYS", "EXFULL")  # runc says that there is none, crun refuses
    assert answers["getpid"] == "ok"


def _numbers(names: str, machine: str) -> dict[str, int]:
    numbers = {name: libseccomp.number(name, machine) for name in names.split()}
    return {name: number for name, number in numbers.items() if number >= 0}


@pytest.mark.fault("F09", "F61")
@pytest.mark.attack("S28", "S29")
def test_the_keep_goes_on_when_the_agent_uses_everything_up(cages: Cages) -> None:
    """Processes, files, terminals, memory of three kinds: each shortage is real, and the agent's alone."""
    words = cages.sealed(
        "python3.11",
        "-m",
        "inside.exhaustion",
        words=("--sysctl=kernel.shmall=4096",),
        processes=256,
        open_files=1024,
        tmp_bytes=16 * MIB,
    )
    answers = {row["attempt"]: row["result"] for row in cages.rows(words)}
    assert len(answers) == 10
    assert not {what: answer for what, answer in answers.items() if not answer.startswith("the keep goes on")}


@pytest.mark.attack("S13")
def test_nothing_of_the_runtime_can_be_written_from_inside(cages: Cages) -> None:
    """At each exec a helper of the host's runs inside for a moment; what is planted inside is caught."""
    runtime = Path(shutil.which(cages.user.runtime) or "")
    before = hashlib.sha256(runtime.read_bytes()).hexdigest()
    name = "minifram-trial-exec"
    watch = cages.sealed("python3.11", "-m", "inside.exec_watch", words=(f"--name={name}", "--user=1000"))
    with cages.user.popen(*cages.user.command(*watch)) as watcher:
        assert watcher.stdout
        try:
            assert watcher.stdout.readline() == "ready\n"
            for uid in ("1000", "0", "1000", "0"):
                cages.user.podman("exec", f"--user={uid}", name, "true")
            planted = "cp /usr/bin/sleep /bot/planted && /bot/planted 0.3"
            cages.user.podman("exec", "--user=1000", name, "sh", "-c", planted)
        finally:
            said, errors = watcher.communicate(timeout=20)
    assert json.loads(said or "{}").get("written") == ["/bot/planted"], errors
    assert hashlib.sha256(runtime.read_bytes()).hexdigest() == before


@pytest.mark.attack("S12")
def test_no_descriptor_of_the_runtime_is_a_working_directory(cages: Cages) -> None:
    """A runtime that leaves a descriptor of the host's open lets a container begin outside of it."""
    look = "import os; print(os.path.samestat(os.stat('/'), os.stat('../' * 20)), os.getcwd())"
    for number in (7, 8, 9):
        words = cages.sealed("python3.11", "-c", look, words=(f"--workdir=/proc/self/fd/{number}",))
        ended = cages.user.podman(*words, check=False)
        assert ended.returncode or ended.stdout.startswith("True /"), ended
    inside = cages.user.podman(*cages.sealed("python3.11", "-c", look, words=("--workdir=/usr",)))
    assert inside.stdout == "True /usr\n"

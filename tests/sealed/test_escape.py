"""Ways out of a real rootless container, tried from inside by the agent's uid, and what must work all the same."""

from __future__ import annotations

import json
import platform

import pytest

from host.container.words import MIB
from tests.sealed import libseccomp, profile, rows
from tests.sealed.inside.attempts import attempts
from tests.sealed.inside.calls import Attempt
from tests.sealed.rows import Seen
from tests.sealed.support.cages import Cages

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(300)]

ATTEMPTS = [
    pytest.param(each, id=f"{each.line} {each.what}", marks=pytest.mark.attack(each.line)) for each in attempts()
]


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_an_attempt_is_blocked_and_succeeds_without_fences(attempt: Attempt, seen: Seen) -> None:
    """The agent, and the keep's own root, get the expected answer; without fences the same code gets through."""
    assert rows.problem(attempt, seen) == ""


def test_every_line_has_an_attempt_that_succeeds_without_fences(seen: Seen) -> None:
    """And the containers tried each of them."""
    assert {(attempt.line, attempt.what) for attempt in attempts()} <= seen.agent.keys()
    assert {attempt.line for attempt in attempts()} == {attempt.line for attempt in attempts() if attempt.free}


@pytest.mark.attack("S02")
def test_the_keep_is_unhurt(seen: Seen) -> None:
    """After all attempts its processes run, and not one signal has reached them."""
    assert seen.fared == "well"


def test_ordinary_work_is_not_hindered(seen: Seen) -> None:
    """What an agent's day is made of; what the seal does as root, each start of an agent shows."""
    assert len(seen.work) == 5
    assert {what: result for what, result in seen.work.items() if result != "ok"} == {}


@pytest.mark.attack("S06", "S07", "S08", "S09")
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
    """Processes, files, inotify, memory of three kinds: each shortage is real, and the agent's alone."""
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
    assert len(answers) == 6
    assert not {what: answer for what, answer in answers.items() if not answer.startswith("the keep goes on")}
